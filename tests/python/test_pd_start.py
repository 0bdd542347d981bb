"""Tests of how SGLang loads the backend, of what the backend refuses at start, and of the layout that it makes of
KVArgs."""

import enum
import importlib.metadata
import sys
import types

import numpy as np
import pytest
from pd_engines import BACKEND, KVArgs, Model, Pair, RankMemory, Request, ServerArgs, kv_class, runtime_context, utils
from peercache import Error, _native
from peercache.pd import contract, layout, manager, plugin, refusals
from sglang.srt import server_args as sglang_server_args

PREFILL = utils.DisaggregationMode.PREFILL


def kv_args(**more):
    args = RankMemory(Model()).kv_args(KVArgs())
    for name, value in more.items():
        setattr(args, name, value)
    return args


# -- tests of SGLang's plug-in


def test_the_wheel_names_the_plug_in():
    (entry,) = [e for e in importlib.metadata.entry_points(group="sglang.srt.plugins") if e.name == "peercache"]
    assert entry.load() is plugin.load


def test_the_backend_is_a_choice_and_a_member_and_has_classes():
    assert "peercache" in sglang_server_args.DISAGG_TRANSFER_BACKEND_CHOICES
    assert utils.TransferBackend("peercache") is BACKEND is utils.TransferBackend.PEERCACHE
    assert BACKEND in list(utils.TransferBackend)
    assert kv_class("MANAGER") is manager.KVManager and kv_class("KVARGS") is KVArgs
    for name in utils.KVClassType:
        assert utils.get_kv_class(BACKEND, name) is not None
    with pytest.raises(ValueError):
        utils.TransferBackend("somebody else's")


def test_other_backends_are_still_sglang_s():
    assert utils.get_kv_class(utils.TransferBackend.FAKE, utils.KVClassType.SENDER) == "fake sender"
    with pytest.raises(ValueError, match="Unsupported"):
        utils.get_kv_class(utils.TransferBackend.NIXL, utils.KVClassType.SENDER)


def test_loading_twice_adds_nothing():
    before = list(sglang_server_args.DISAGG_TRANSFER_BACKEND_CHOICES), list(utils.TransferBackend)
    plugin.load()
    assert before == (sglang_server_args.DISAGG_TRANSFER_BACKEND_CHOICES, list(utils.TransferBackend))


def test_a_member_is_added_to_an_enum_of_words_too():
    class Words(str, enum.Enum):
        ONE = "one"

    plugin.add_member(Words, "two")
    assert Words("two") is Words.TWO == "two" and list(Words) == [Words.ONE, Words.TWO]


def test_a_version_without_the_places_is_refused_with_their_names(monkeypatch):
    old = types.ModuleType(plugin.UTILS)
    old.TransferBackend = utils.TransferBackend
    monkeypatch.setitem(sys.modules, plugin.UTILS, old)
    with pytest.raises(RuntimeError, match="has no KVClassType; .* has no get_kv_class"):
        plugin.load()


@pytest.mark.parametrize("kind, name, method, fault", [
    (contract.CommonKVSender, "send", lambda self, kv_indices, state_indices=None, split=None: None, "split"),
    (contract.CommonKVManager, "_handle_node_failure", None, "_handle_node_failure is not there"),
    (contract.CommonKVReceiver, "init", lambda self, prefill_dp_rank, more: None, "more"),
])
def test_a_version_of_another_shape_is_refused_where_sglang_asks_for_classes(monkeypatch, kind, name, method, fault):
    if method is None:
        monkeypatch.delattr(kind, name)
    else:
        monkeypatch.setattr(kind, name, method)
    with pytest.raises(RuntimeError, match=fault):
        utils.get_kv_class(BACKEND, utils.KVClassType.MANAGER)


def test_a_version_with_other_numbers_is_refused(monkeypatch):
    monkeypatch.setattr(contract.KVPoll, "Success", 5)
    with pytest.raises(RuntimeError, match="KVPoll.Success is not 4"):
        utils.get_kv_class(BACKEND, utils.KVClassType.MANAGER)


# -- tests of engines that are refused at start


@pytest.mark.parametrize("option, word", [
    ({"tokenizer_worker_num": 2}, "tokenizer-worker-num"),
    ({"dcp_size": 2}, "decode context parallelism"),
    ({"enable_dsa_cache_layer_split": True}, "dsa-cache-layer-split"),
    ({"enable_unified_memory": True}, "unified-memory"),
    ({"enable_hisparse": True}, "hisparse"),
])
def test_options_that_are_not_served_end_the_start_with_a_sentence(option, word):
    with pytest.raises(ValueError, match=word):
        kv_class("MANAGER")(kv_args(), PREFILL, ServerArgs(**option))


def test_staging_buffers_are_refused(monkeypatch):
    monkeypatch.setenv("SGLANG_DISAGG_STAGING_BUFFER", "1")
    with pytest.raises(ValueError, match="STAGING"):
        refusals.check_start(ServerArgs(), kv_args())


def test_layouts_without_an_order_are_refused():
    without = kv_args(mla_compression_ratios=[4, 128], kv_layer_ids=[])
    with pytest.raises(ValueError, match="compressed MLA"):
        refusals.check_start(ServerArgs(pp_size=2), without)
    with pytest.raises(ValueError, match="sliding window"):
        refusals.check_start(ServerArgs(), kv_args(swa_page_size=1, state_types=["swa"]))
    refusals.check_start(ServerArgs(), kv_args(swa_page_size=4, state_types=["swa"]))


def test_device_memory_that_nobody_reaches_is_refused(monkeypatch):
    for device, has_driver, refused in (("cuda", False, True), ("cuda", True, False), ("npu", True, True),
                                        ("cpu", False, False)):
        monkeypatch.setattr(refusals, "has_cuda", lambda there=has_driver: there)
        refusals.check_memory(ServerArgs(device=device), "verbs: mlx5_0")
        if refused:
            with pytest.raises(ValueError, match=f"memory of {device}"):
                refusals.check_memory(ServerArgs(device=device), "tcp: no RDMA device")
        else:
            refusals.check_memory(ServerArgs(device=device), "tcp: no RDMA device")


def test_a_layout_that_no_engine_has_ends_the_start(monkeypatch):
    runtime_context.set_parallel(runtime_context.Parallel())
    with pytest.raises(Error, match="no address"):
        kv_class("MANAGER")(kv_args(kv_data_ptrs=[0] * 8), PREFILL, ServerArgs())


def test_an_address_beyond_loopback_needs_insecure_cluster():
    described = {"dtype": "uint8", "page_tokens": 1}
    with pytest.raises(Error, match="insecure_cluster"):
        _native.PrefillWorker({}, "0.0.0.0", "host", described)
    _native.PrefillWorker({"insecure_cluster": "true"}, "0.0.0.0", "host", described).close()


@pytest.mark.parametrize("said, devices", [
    (None, {}), ("", {}), ("mlx5_0", {"rdma.devices": "mlx5_0"}),
    ("mlx5_0, mlx5_1", {"rdma.devices": "mlx5_0,mlx5_1"}),
    ('{"0": "mlx5_0", "1": "mlx5_2,mlx5_3"}', {"rdma.devices": "mlx5_2,mlx5_3"}),
])
def test_devices_are_read_as_sglang_writes_them(said, devices, tmp_path):
    assert refusals.devices_of(said, 1) == devices
    if said and said.startswith("{"):
        file = tmp_path / "devices.json"
        file.write_text(said)
        assert refusals.devices_of(str(file), 1) == devices


@pytest.mark.parametrize("said", ['{"0": "mlx5_0"}', "{", "/nowhere.json"])
def test_devices_that_make_no_sense_are_refused(said):
    with pytest.raises(ValueError, match="disaggregation-ib-device"):
        refusals.devices_of(said, 1)


# -- tests of the layout that is made of KVArgs


def layout_for(args, is_prefill=True, is_mla=False, **of_manager):
    place = {"attn_tp_rank": 1, "attn_tp_size": 2, "attn_cp_rank": 0, "attn_cp_size": 1, "pp_rank": 0, "pp_size": 1,
             "enable_all_cp_ranks_for_transfer": False, "is_hybrid_mla_backend": False, **of_manager}
    return layout.layout_of(types.SimpleNamespace(kv_args=args, server_args=ServerArgs(), is_mla_backend=is_mla,
                                                  **place), is_prefill)


def test_states_of_each_component_are_described():
    tensors = [np.zeros((4, 64), np.uint8) for _ in range(3)]

    class Kind(enum.Enum):
        MAMBA, SWA = "mamba", "swa"

    args = kv_args(
        state_types=[Kind.MAMBA, "swa"],
        state_data_ptrs=[[t.ctypes.data for t in tensors[:2]], [tensors[2].ctypes.data]],
        state_data_lens=[[256, 256], [256]], state_item_lens=[[64, 64], [64]],
        state_layer_ids=[[0, 1], [2]], state_dim_per_tensor=[[16, 32], []], state_slice_outer_counts=[[4, 1], []],
        state_conv_shard_groups=[[[16, 16], None], []])
    states = layout_for(args)["states"]
    assert states == [
        ("mamba", [((tensors[0].ctypes.data, 256, 64, 0), 16, 4, [16, 16]),
                   ((tensors[1].ctypes.data, 256, 64, 1), 32, 1, [])]),
        ("swa", [((tensors[2].ctypes.data, 256, 64, 2), 0, 0, [])])]
    runtime_context.set_parallel(runtime_context.Parallel())
    described = layout_for(args)
    _native.DecodeWorker({}, "127.0.0.1", "host", described).close()


def test_prefill_knows_heads_and_layers_and_decode_does_not():
    args = kv_args(engine_rank=3)
    prefill, decode = layout_for(args), layout_for(args, is_prefill=False)
    assert (prefill["kv_heads"], prefill["first_layer"], prefill["end_layer"]) == (4, 0, 4)
    assert "kv_heads" not in decode and "end_layer" not in decode
    assert prefill["ranks"][:2] == (1, 2) and decode["ranks"][:2] == (1, 2), "decode's is engine_rank % attn_tp_size"
    del args.prefill_end_layer
    assert layout_for(args)["end_layer"] == 4
    assert layout_for(args, is_mla=True)["end_layer"] == 8 and "kv_heads" not in layout_for(args, is_mla=True)


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="of the same buffers"):
        layout_for(kv_args(kv_item_lens=[1]))


def test_states_have_their_places_in_the_sequence():
    kinds = ["mamba", "swa", "dsa", "swa_ring", "c128_state"]
    given = [[3], np.array([7, 8]), np.arange(10, dtype=np.int64), [5, 6], None]
    states = layout.states_of(kinds, given, 10)
    assert [first for first, _ in states] == [0, 8, 0, 0, 0]
    assert [list(items) for _, items in states] == [[3], [7, 8], list(range(10)), [5, 6], []]
    assert all(items.dtype == np.int32 for _, items in states)
    with pytest.raises(ValueError, match="2 components"):
        layout.states_of(["mamba"], [[1], [2]], 10)


@pytest.mark.parametrize("pages, error", [
    (np.array([1, -1], np.int32), ValueError), (np.array([1], np.int64), TypeError), ([1], TypeError),
    (np.arange(8, dtype=np.int32)[::2], (TypeError, BufferError, ValueError)),
])
def test_pages_that_are_no_row_of_numbers_are_refused(pages, error):
    worker = _native.PrefillWorker({}, "127.0.0.1", "host", {"dtype": "uint8", "page_tokens": 1})
    room, watch = worker.open(1)
    with pytest.raises(error):
        worker.send(room, pages, False)
    assert watch.poll() == 1
    worker.close()
    with pytest.raises(Error) as closed:
        worker.open(2)
    assert closed.value.code == "closed" and worker.closed and worker.failure(room)


def test_a_layout_of_another_form_is_refused():
    for described, error in (({"words": 1}, ValueError), ({"dtype": 7, "page_tokens": 1}, TypeError),
                             ({"states": [("rwkv", [])]}, ValueError)):
        with pytest.raises(error):
            _native.DecodeWorker({}, "127.0.0.1", "host", described)
    with pytest.raises(Error, match="there is no option"):
        _native.DecodeWorker({"rdma.device": "x"}, "127.0.0.1", "host", {"dtype": "uint8", "page_tokens": 1})


# -- tests of SGLang's time-outs


@pytest.mark.parametrize("name, knows", [("BOOTSTRAP", False), ("WAITING", True)])
def test_a_room_that_the_other_side_never_has_times_out(monkeypatch, name, knows):
    monkeypatch.setenv(f"SGLANG_DISAGGREGATION_{name}_TIMEOUT", "0.2")
    pair = Pair()
    request = Request(1, 1, 30 * 4)
    pair.prefill.chunks_max = 0
    pair.prefill.add(request)
    if knows:
        pair.decode.add(request)
    side = "decode" if knows else "prefill"
    pair.turn_until(lambda: side in request.ended)
    assert "timed out" in request.ended[side][0][0]
    pair.close()


@pytest.mark.parametrize("pages", [[1.5], [2**31], np.array([-(2**40)]), np.array([7.25])])
def test_what_is_no_number_of_a_page_is_refused_and_not_bent_into_one(pages):
    with pytest.raises(ValueError, match="whole number"):
        layout.pages_of(pages)
    assert layout.pages_of(np.array([3, 2**31 - 1], dtype=np.int64)).tolist() == [3, 2**31 - 1]
