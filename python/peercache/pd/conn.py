"""The classes of this backend, by the names under which SGLang asks for them. Needs SGLang."""

from peercache.pd.contract import CommonKVBootstrapServer, KVArgs
from peercache.pd.manager import KVManager
from peercache.pd.receiver import KVReceiver
from peercache.pd.sender import KVSender


class KVBootstrapServer(CommonKVBootstrapServer):
    """SGLang's own: prefill ranks register there, and decode asks it where they are."""


CLASSES = {
    "KVARGS": KVArgs,
    "MANAGER": KVManager,
    "SENDER": KVSender,
    "RECEIVER": KVReceiver,
    "BOOTSTRAP_SERVER": KVBootstrapServer,
}
