"""Tests of what must be equal in two vLLM engines for them to share chunks, and of configurations that are refused at
start."""

import inspect
import mmap
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from vllm_engines import Engine, SecondaryTierFactory, entry_of, fresh_keys

import vllm
from peercache.vllm import PeerCacheTier, contract, plugin
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_offload import base
from vllm.v1.kv_offload.config import OffloadingConfig, OffloadingGroupConfig
from vllm.v1.kv_offload.tiering import base as tiers

PLAIN = OffloadingConfig()


def changed(part, **fields):
    return replace(PLAIN, **{part: replace(getattr(PLAIN, part), **fields)})


OTHER_BYTES = {
    "model": changed("model", name="test/another"),
    "dtype": changed("model", dtype="fp8_e4m3"),
    "tokens_per_hash": changed("cache", tokens_per_hash=32),
    "blocks_per_chunk": changed("cache", blocks_per_chunk=8),
    "tp": changed("parallel", tp_size=2),
    "pp": changed("parallel", pp_size=2),
    "pcp": changed("parallel", pcp_size=2),
    "dcp": changed("parallel", dcp_size=2),
    "world_size": changed("parallel", world_size=2),
    "agnostic": changed("parallel", is_parallelism_agnostic=True),
    "replicated": replace(PLAIN, replicated_layout=True),
    "layout": replace(PLAIN, kv_cache_layout="HND"),
    "canonical": replace(PLAIN, canonical_layout=True),
    "worker_bytes": replace(PLAIN, worker_kv_bytes_per_block=2048),
    "tokens_per_block": replace(PLAIN, groups=(OffloadingGroupConfig(tokens_per_block=32),)),
    "layers": replace(PLAIN, groups=(OffloadingGroupConfig(layer_names=("layers.0",)),)),
    "groups": replace(PLAIN, groups=PLAIN.groups * 2),
}
SAME_BYTES = {
    "engine_id": replace(PLAIN, engine_id="another engine"),
    "rank": changed("parallel", rank=1),
    "dp": changed("parallel", data_parallel_index=1),
    "extra_config": replace(PLAIN, extra_config={"cpu_bytes_to_use": 1}),
    "events": replace(PLAIN, enable_kv_cache_events=True),
    "memory": replace(PLAIN, num_cpu_blocks=7),
}


@pytest.fixture(scope="module")
def stored(ring):
    """Keys that an engine with the configuration PLAIN has stored."""
    writer, keys = Engine(entry_of(ring[0])), fresh_keys(3)
    writer.put(keys)
    assert writer.fetch(keys) == 3
    writer.close()
    return keys


@pytest.mark.parametrize("field", OTHER_BYTES)
def test_an_engine_whose_chunks_mean_something_else_misses(ring, vllm_engine, stored, field):
    assert vllm_engine(ring[0], config=OTHER_BYTES[field]).hits(stored) == 0


@pytest.mark.parametrize("field", SAME_BYTES)
def test_an_engine_that_only_is_another_process_hits(ring, vllm_engine, stored, field):
    assert vllm_engine(ring[0], config=SAME_BYTES[field]).hits(stored) == 3


@pytest.mark.parametrize("more", [{"row_bytes": 8192}, {"storage_format": "fp8"}, {"entry": {"space": "tenant"}},
                                  {"entry": {"kv_cache_layout": "mine"}}], ids=lambda more: next(iter(more)))
def test_rows_storage_formats_and_spaces_are_apart(ring, vllm_engine, stored, more):
    assert vllm_engine(ring[0], **more).hits(stored) == 0


@pytest.mark.parametrize("field, value", [("revision", "r2"), ("quantization", "fp8"), ("rope_scaling", {"factor": 4.0}),
                                          ("hf_overrides", {"rope_theta": 1e6})])
def test_another_model_of_the_same_name_misses(ring, vllm_engine, stored, monkeypatch, field, value):
    monkeypatch.setattr(base.OffloadingSpec, "vllm_config",
                        SimpleNamespace(model_config=SimpleNamespace(**{field: value})), raising=False)
    assert vllm_engine(ring[0]).hits(stored) == 0


def test_two_functions_that_override_the_model_are_apart(ring, vllm_engine, monkeypatch):
    keys, found = fresh_keys(2), []
    for overrides in (lambda config: config, lambda config: None):
        monkeypatch.setattr(base.OffloadingSpec, "vllm_config",
                            SimpleNamespace(model_config=SimpleNamespace(hf_overrides=overrides)), raising=False)
        engine = vllm_engine(ring[0])
        found.append(engine.hits(keys))
        engine.put(keys)
    assert found == [0, 0]


@pytest.mark.parametrize("entry, said", [({}, True), ({"space": "r2"}, False)], ids=["alone", "with-a-space"])
def test_what_vllm_does_not_tell_of_the_model_is_said_at_start(ring, vllm_engine, caplog, entry, said):
    vllm_engine(ring[0], entry=entry)
    assert any("read each other's KV" in line.getMessage() for line in caplog.records) == said


def test_another_seed_of_hashes_misses(ring, vllm_engine, stored, monkeypatch):
    monkeypatch.setattr(kv_cache_utils, "NONE_HASH", b"another seed")
    assert vllm_engine(ring[0]).hits(stored) == 0


def test_the_seed_is_read_when_vllm_has_made_it(ring, vllm_engine, stored, monkeypatch):
    seed = kv_cache_utils.NONE_HASH
    monkeypatch.delattr(kv_cache_utils, "NONE_HASH")
    engine = vllm_engine(ring[0])
    monkeypatch.setattr(kv_cache_utils, "NONE_HASH", seed, raising=False)
    assert engine.hits(stored) == 3


def test_without_a_seed_of_vllms_the_environment_says_it(ring, vllm_engine, monkeypatch):
    monkeypatch.delitem(sys.modules, contract.HASHES)
    keys, found = fresh_keys(2), []
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    vllm_engine(ring[0]).put(keys)
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        found.append(vllm_engine(ring[0]).hits(keys))
    assert found == [2, 0]


def test_another_version_of_vllm_misses(ring, vllm_engine, stored, monkeypatch):
    canonical, keys = OTHER_BYTES["canonical"], fresh_keys(2)
    vllm_engine(ring[0], config=canonical).put(keys)
    with monkeypatch.context() as other:
        other.setattr(vllm, "__version__", "0.31.1")
        assert vllm_engine(ring[0]).hits(stored) == 0
        assert vllm_engine(ring[0], config=canonical).hits(keys) == 0
    assert vllm_engine(ring[0], config=canonical).hits(keys) == 2
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading import canonical_mapping
    monkeypatch.setattr(canonical_mapping, "canonical_format_id", lambda layout: f"v2-{layout}")
    assert vllm_engine(ring[0], config=canonical).hits(keys) == 0


def test_a_version_that_does_not_tell_the_layout_needs_a_word(ring, vllm_engine):
    silent, keys = replace(PLAIN, kv_cache_layout=None), fresh_keys(2)
    with pytest.raises(ValueError, match='vLLM 0.31.0 does not tell .* Add "kv_cache_layout"'):
        Engine(entry_of(ring[0]), config=silent)
    vllm_engine(ring[0], config=silent, entry={"kv_cache_layout": "flash-h100"}).put(keys)
    for word, found in (("flash-h100", 2), ("flashinfer-b200", 0)):
        assert vllm_engine(ring[0], config=silent, entry={"kv_cache_layout": word}).hits(keys) == found


@pytest.mark.parametrize("entry, said", [
    ({"seeds": "10.0.0.1:31998"}, "has seeds: that is no option of PeerCache"),
    ({"lookup_timeout_s": "soon"}, "lookup_timeout_s: 'soon' is given, a number of seconds"),
    ({"load_threads": 0}, "load_threads: 0 is given, a whole number from 1 to 64"),
    ({"locality": "NEAR"}, "LOCAL or REMOTE is allowed"),
    ({"client.timeout": "often"}, "client.timeout"),
])
def test_an_entry_that_makes_no_sense_stops_the_start(ring, entry, said):
    with pytest.raises(ValueError, match=said):
        Engine(entry_of(ring[0], **entry))


def test_options_may_be_nested_tables(ring, vllm_engine, stored):
    entry = entry_of(ring[0])
    port = entry.pop("client.node_port")
    engine = Engine({**entry, "client": {"node_port": port}})
    assert engine.hits(stored) == 3
    engine.finish()
    engine.close()


def test_a_chunk_that_no_page_can_hold_is_refused(ring):
    with pytest.raises(ValueError, match='a chunk has 67112960 bytes .* make "block_size"'):
        Engine(entry_of(ring[0]), chunks=1, row_bytes=(64 << 20) + 4096)


@pytest.mark.parametrize("entry", [{"locality": "NEAR"}, {"client.timeout": "often"}], ids=["before", "in the client"])
def test_a_refused_start_lets_go_of_the_primary_view(ring, entry):
    memory = mmap.mmap(-1, 4096)
    view = memoryview(memory).cast("B", (1, 4096))
    with pytest.raises(ValueError) as kept:  # The traceback outlives the start, as it does in vLLM.
        SecondaryTierFactory.create_secondary_tier(entry_of(ring[0], **entry), view, base.OffloadingSpec(PLAIN))
    view.release()
    memory.close()
    assert kept


def test_versions_whose_counters_have_no_labels_have_no_metrics(ring, monkeypatch):
    class Unlabelled:
        def __init__(self, documentation): ...
    monkeypatch.setattr(base, "OffloadingCounterMetadata", Unlabelled)
    engine = Engine(entry_of(ring[0]))
    assert type(engine.tier).build_metric_definitions({}) == {}
    assert engine.hits(fresh_keys(2)) == 0 and engine.tier.get_stats() is None
    engine.close()


def test_a_method_that_only_vllm_knows_is_refused_with_a_sentence(ring, monkeypatch):
    monkeypatch.setattr(tiers.SecondaryTierManager, "__abstractmethods__", frozenset({"bind_parent"}))
    monkeypatch.setattr(PeerCacheTier, "__abstractmethods__", frozenset({"bind_parent"}))
    with pytest.raises(ValueError, match="bind_parent is to be written"):
        SecondaryTierFactory.create_secondary_tier(entry_of(ring[0]), memoryview(b""), None)


def lookup_of_three(self, key, req_context, hints): ...


def init_of_four(self, offloading_spec, primary_kv_view, tier_type, registry): ...


class NeedsMore:
    def __init__(self, job_id, success, checksum): ...


@pytest.mark.parametrize("where, name, value, said", [
    (tiers.SecondaryTierManager, "lookup", lookup_of_three, "lookup takes 3 arguments, not 2"),
    (tiers.SecondaryTierManager, "on_schedule_end", None, "on_schedule_end is not there"),
    (tiers.SecondaryTierManager, "__init__", init_of_four, "its constructor takes .*registry"),
    (tiers.SecondaryTierManager, "__abstractmethods__", frozenset({"bind_parent"}), "bind_parent is to be written"),
    (tiers, "JobResult", NeedsMore, "JobResult needs checksum"),
    (base, "LookupResult", object, "LookupResult has no HIT"),
])
def test_a_vllm_that_is_not_known_is_refused_with_a_sentence(ring, monkeypatch, where, name, value, said):
    monkeypatch.setattr(where, name, value)
    sentence = contract.refusal(tiers.SecondaryTierManager)
    assert sentence.startswith("vLLM 0.31.0 has another interface") and sentence.endswith("or a newer PeerCache")
    with pytest.raises(ValueError, match=said):
        SecondaryTierFactory.create_secondary_tier(entry_of(ring[0]), memoryview(b""), None)


@pytest.mark.parametrize("name, value", [
    ("__abstractmethods__", frozenset({"lookup", "has_pending_work", "take_events"})),
    ("drain_jobs", None), ("get_stats", None), ("take_events", None),
], ids=["others-abstract", "no-drain", "no-stats", "no-events"])
def test_a_vllm_that_asks_for_what_the_tier_has_is_known(monkeypatch, name, value):
    monkeypatch.setattr(tiers.SecondaryTierManager, name, value)
    assert contract.refusal(tiers.SecondaryTierManager) is None


def test_the_stand_in_is_what_is_known_and_no_vllm_is_a_sentence():
    assert contract.refusal(tiers.SecondaryTierManager) is None
    assert "it is not there" in contract.refusal(contract.NoTier)


def test_versions_without_lookup_results_have_truth_values(monkeypatch):
    monkeypatch.delattr(base, "LookupResult")
    answers = contract.Answers()
    assert [answers.of(each) for each in (True, False, None)] == [True, False, None]


def test_results_have_the_fields_of_the_version(monkeypatch):
    class OldResult:
        def __init__(self, job_id, success):
            self.job_id, self.success = job_id, success
    monkeypatch.setattr(tiers, "JobResult", OldResult)
    result = contract.ResultMaker().make(7, False, (b"key",), 0.1, 4096)
    assert (result.job_id, result.success) == (7, False)


def test_the_plug_in_names_the_tier_and_may_be_called_again(ring, monkeypatch):
    monkeypatch.setattr(SecondaryTierFactory, "registry", {})
    plugin.register()
    plugin.register()
    entry = entry_of(ring[0])
    del entry["module_path"]
    engine = Engine({**entry, "type": "peercache"})
    assert engine.tier.tier_type == "peercache"
    engine.close()


@pytest.mark.parametrize("registers", [None, lambda *_: 1 / 0], ids=["none", "another"])
def test_the_plug_in_leaves_a_strange_vllm_alone(monkeypatch, caplog, registers):
    monkeypatch.setattr(SecondaryTierFactory, "registry", {})
    monkeypatch.setattr(SecondaryTierFactory, "register_tier", registers)
    plugin.register()
    assert "cannot be used with this vLLM" in caplog.text
    assert SecondaryTierFactory.registry == {}


def test_an_older_tier_takes_no_detector(ring, monkeypatch):
    known = tiers.SecondaryTierManager.__init__

    def without_detector(self, offloading_spec, primary_kv_view, tier_type):
        known(self, offloading_spec, primary_kv_view, tier_type)
    monkeypatch.setattr(tiers.SecondaryTierManager, "__init__", without_detector)
    assert "backpressure_detector" not in inspect.signature(tiers.SecondaryTierManager.__init__).parameters
    Engine(entry_of(ring[0])).close()


def test_a_detector_is_passed_on(ring):
    engine = Engine(entry_of(ring[0], backpressure_detector="a detector"))
    assert engine.tier.bp_detector == "a detector"
    engine.close()
