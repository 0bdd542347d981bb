"""Tests that the metrics, labels, rules and runbooks that config/monitoring names exist."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
KIT = ROOT / "config" / "monitoring"
HISTOGRAM_SUFFIX = re.compile(r"_(bucket|sum|count)$")
# Labels that Prometheus itself adds, and those of `ALERTS`.
FOREIGN_LABELS = {"job", "instance", "le", "alertstate", "alertname"}


def metrics_of(text):
    """Returns the table in docs/metrics.md as {metric: {label: its values; an empty set where any value is
    allowed}}."""
    metrics = {}
    for name, labels in re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \|", text, re.M):
        metrics[name] = {}
        for part in filter(None, labels.split(";")):
            label, _, words = part.partition(":")
            metrics[name][label.strip(" `")] = set(words.replace(",", " ").split())
    return metrics


def rules(file):
    return [rule for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]


def strings_in(node):
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        yield from strings_in(list(node.values()))
    elif isinstance(node, list):
        for each in node:
            yield from strings_in(each)


def unknown_in(expression, metrics, recorded):
    """Returns what the expression names and does not exist: metrics, labels, values of labels, recorded series."""
    for name in re.findall(r"peercache:[\w:]+", expression):
        if name not in recorded:
            yield name
    for name, selector in re.findall(r"(?<![\w:])(peercache_\w+)(?:\{(.*?)\})?", expression):
        known = metrics.get(name, metrics.get(HISTOGRAM_SUFFIX.sub("", name)))
        if known is None:
            yield name
            continue
        for label, words in re.findall(r'(\w+)\s*=~?\s*"(.*?)"', selector):
            if label not in known and label not in FOREIGN_LABELS:
                yield f"{name}{{{label}}}"
            allowed = known.get(label)
            if allowed and not set(words.split("|")) <= allowed:
                yield f'{name}{{{label}="{words}"}}'


def anchors(text):
    """Returns the anchors of a Markdown document's headings."""
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


class monitoring(unittest.TestCase):
    def setUp(self):
        self.metrics = metrics_of((ROOT / "docs" / "metrics.md").read_text())
        self.alerts = rules(KIT / "alerts.yaml")
        self.recorded = {rule["record"]: rule["expr"] for rule in rules(KIT / "recording.yaml")}
        self.dashboard = json.loads((KIT / "grafana-dashboard.json").read_text())

    def unknown(self, expressions):
        return {name for text in expressions for name in unknown_in(text, self.metrics, self.recorded)}

    def test_what_is_planted_is_found(self):
        planted = ['peercache_nothing', 'sum(peercache_ready{rail="x"})', 'peercache_hits_total{source="moon"}', "peercache:none"]
        self.assertEqual(len(self.unknown(planted)), len(planted))

    def test_rules_name_what_exists(self):
        self.assertEqual(self.unknown([*self.recorded.values(), *(rule["expr"] for rule in self.alerts)]), set())

    def test_the_dashboard_names_what_exists(self):
        texts = [*strings_in(self.dashboard["panels"]), *strings_in(self.dashboard["templating"])]
        self.assertEqual(self.unknown(texts), set())

    def test_each_panel_has_a_meaning_and_a_place_of_its_own(self):
        panels = self.dashboard["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        places = set()
        for panel in panels:
            at = panel["gridPos"]
            self.assertTrue(panel["type"] == "row" or panel["description"], panel["title"])
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(places & cells, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], 24)
            places |= cells

    def test_each_alert_fires_in_a_test(self):
        tests = yaml.safe_load((ROOT / "tests" / "lint" / "alerts_test.yaml").read_text())["tests"]
        fired = {case["alertname"] for test in tests for case in test.get("alert_rule_test", []) if case["exp_alerts"]}
        self.assertEqual(fired, {rule["alert"] for rule in self.alerts})

    def test_each_name_of_an_alert_in_the_documents_is_one_in_its_own_runbook(self):
        runbooks = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in self.alerts}
        named = set()
        for page in sorted((ROOT / "docs").glob("*.md")):
            for section in re.split(r"^(?=## )", page.read_text(), flags=re.M):
                for line in re.findall(r"^Alerts?: .*$", section, re.M):
                    for alert in re.findall(r"`(PeerCache\w+)`", line):
                        named.add(alert)
                        self.assertIn(alert, runbooks, f"{page.name} names an alert that there is not")
                        # The runbook of this alert depends on the fault's id.
                        if alert != "PeerCacheClusterFault":
                            self.assertEqual(runbooks[alert].partition("#")[2], min(anchors(section.split("\n")[0])), alert)
        self.assertEqual(named, set(runbooks))

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool")
    def test_each_fault_fires_an_alert_that_names_it(self):
        ids = re.findall(r'^inline constexpr name \w+ = "([a-z-]+)";', (ROOT / "common/fault_ids.hpp").read_text(), re.M)
        self.assertGreater(len(ids), 30)
        rule = next(rule for rule in self.alerts if rule["alert"] == "PeerCacheClusterFault")
        words = rule["annotations"]
        series, alerts = [], []
        for count, name in enumerate(ids, 1):
            for node, value in (("a", count), ("b", 0)):
                series.append({"series": f'peercache_cluster_faults{{id="{name}", instance="{node}:31997", job="peercache"}}',
                               "values": f"{value}x10"})
            alerts.append({"exp_labels": {"id": name, "job": "peercache", "severity": rule["labels"]["severity"]},
                           "exp_annotations": {**words, "summary": f"peercache has the fault {name}, {count} times"}})
        series.append({"series": 'peercache_cluster_faults{id="mended", instance="a:31997", job="peercache"}', "values": "0x10"})
        test = {"rule_files": [str(KIT / "alerts.yaml")], "evaluation_interval": "1m",
                "tests": [{"interval": "1m", "input_series": series,
                           "alert_rule_test": [{"alertname": rule["alert"], "eval_time": "1m", "exp_alerts": []},
                                               {"alertname": rule["alert"], "eval_time": "5m", "exp_alerts": alerts}]}]}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "faults.yaml"
            file.write_text(yaml.safe_dump(test))
            done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_has_a_runbook_that_names_it(self):
        for rule in self.alerts:
            path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
            text = (ROOT / path).read_text()
            self.assertIn(anchor, anchors(text), rule["alert"])
            sections = [part for part in re.split(r"^## ", text, flags=re.M) if anchor in anchors("## " + part.split("\n")[0])]
            self.assertIn(f"`{rule['alert']}`", sections[0], f"its runbook does not name {rule['alert']}")
            self.assertIn(rule["labels"]["severity"], {"critical", "warning", "info"})


if __name__ == "__main__":
    unittest.main()
