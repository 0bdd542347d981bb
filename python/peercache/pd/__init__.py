"""Prefill and decode of SGLang on different hosts: decode reads the KV of a prompt where prefill has computed it
(`--disaggregation-transfer-backend peercache`). `plugin.load` is what SGLang calls; `conn` has the classes."""
