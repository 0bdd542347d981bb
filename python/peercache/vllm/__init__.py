"""PeerCache as a secondary tier of vLLM's OffloadingConnector; loads without vLLM and without torch."""
