"""Opens the client of an engine, which is to start whether its node answers or not."""

from __future__ import annotations

import logging

from peercache._native import Error
from peercache.client import Client, Options


def open_or_miss(options: Options, logger: logging.Logger, embedded: bool = False) -> Client:
    """Opens a client, whether a node answers or not: until one does, all pages are misses. Errors: `peercache.Error`
    for a fault that only another configuration mends."""
    try:
        return Client(options, embedded=embedded)
    except Error as why:
        if embedded or why.code == "invalid argument":
            raise
        logger.error("all is a miss until this is mended: %s", why)
        return Client(options, wait_for_node=False)
