"""A fake of SGLang's command line, with the arguments that a transfer backend reads."""

from dataclasses import dataclass

DISAGG_TRANSFER_BACKEND_CHOICES = ["mooncake", "nixl", "ascend", "fake", "mori", "mooncake_tcp"]


def add_disagg_transfer_backend_choices(choices):
    DISAGG_TRANSFER_BACKEND_CHOICES.extend(choices)


@dataclass
class ServerArgs:
    host: str = "127.0.0.1"
    port: int = 30000
    disaggregation_bootstrap_port: int = 8998
    dist_init_addr: str = ""
    dp_size: int = 1
    pp_size: int = 1
    dcp_size: int = 1
    enable_dp_attention: bool = False
    enable_dsa_cache_layer_split: bool = False
    enable_unified_memory: bool = False
    enable_hisparse: bool = False
    tokenizer_worker_num: int = 1
    load_balance_method: str = "follow_bootstrap_room"
    kv_cache_dtype: str = "auto"
    device: str = "cpu"
