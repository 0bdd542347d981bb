"""Counters on their way to Prometheus."""


class OffloadingConnectorStats:
    def __init__(self):
        self.data = {}

    def increase_counter(self, name, value=1, labelvalues=()):
        series = self.data.setdefault(name, {})
        series[labelvalues] = series.get(labelvalues, 0) + value
