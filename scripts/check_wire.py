#!/usr/bin/env python3
"""Fails when bytes that travel, lie in shared memory or on disk may have changed and their version has not.

    scripts/check_wire.py                          judges (the test lint.wire)
    scripts/check_wire.py --update                 after a version was raised: records the new digests, and writes
                                                   the table of docs/upgrades.md
    scripts/check_wire.py --update --same-version  the same although a version stayed: the bytes are as before (a name
                                                   changed), or nobody runs what has this version yet (branches that
                                                   raised it both were merged)

FORMATS says which files make the bytes of which version. Their digests, taken over the code without comments,
includes and white space, stand in scripts/wire_digests.txt beside the version. A version that grew while all of
its files stayed as they were is as wrong as the other way round.
"""
import hashlib
import pathlib
import re
import sys
from dataclasses import dataclass, field

from check_includes import EVERYTHING, sources

DIGESTS = "scripts/wire_digests.txt"
TABLE = "docs/upgrades.md"
BEGIN, END = "<!-- check_wire.py: begin -->", "<!-- check_wire.py: end -->"


@dataclass
class Format:
    """A version constant, and the formats that it stands for. A file name may end in "#name": then
    only the definitions of that name in the file make the bytes."""

    version: str  # The name of the version constant, unique in its file.
    home: str
    covers: str
    refusal: str
    files: list = field(default_factory=list)

    @property
    def name(self):
        return f"{self.home}:{self.version}"


FORMATS = [
    Format("wire_version", "link/protocol/gateway.hpp",
           "messages between processes, look-ups, who owns a key, a key's bytes",
           "the gateway and the look-up port refuse the hello of clients, nodes and `peercache`",
           ["link/protocol/*.hpp", "link/protocol/samples_wire.cpp", "link/protocol/calls_wire.cpp", "link/protocol/overlap_wire.cpp", "common/byte_codec.hpp", "directory/wire.hpp",
            "directory/wire.cpp", "directory/page_location.hpp", "directory/digest.hpp", "directory/shard_repair.hpp",
            "directory/shard_repair.cpp#comparison_of", "directory/shard_repair.cpp#encode", "discovery/hash_ring.cpp",
            "common/page_key.cpp", "common/key_epoch.hpp", "common/page_status.hpp",
            "metrics/latency_histogram.cpp#bucket_of", "net/frame_channel.hpp#frames",
            "net/frame_channel.cpp#greeting", "net/frame_channel.cpp#append_frame", "link/member_question.hpp",
            "link/member_question.cpp", "link/lookup_datagram.hpp", "link/lookup_datagram.cpp",
            "net/datagram_seal.cpp"]),
    Format("packet_wire_version", "discovery/packet_codec.hpp",
           "the membership's packets",
           "who gets a packet drops it",
           ["discovery/packet.hpp", "discovery/packet_codec.hpp", "discovery/packet_codec.cpp",
            "discovery/view_difference.hpp#view_difference", "discovery/view_difference.cpp#write_difference",
            "discovery/view_difference.cpp#read_difference", "discovery/view_difference.cpp#digest_of",
            "common/byte_codec.hpp"]),
    Format("view_format", "discovery/view_codec.hpp",
           "a view and its members, in packets, welcomes and answers",
           "who reads the view takes it for malformed",
           ["discovery/view_codec.hpp", "discovery/view_codec.cpp", "discovery/view.hpp#member",
            "discovery/view.hpp#view_stamp", "discovery/view.hpp#view", "discovery/view.hpp#departure",
            "discovery/view.hpp#departed"]),
    Format("tcp_wire_version", "rdma/tcp/tcp_protocol.hpp",
           "pages over TCP",
           "the page server refuses the reader's hello; its gets miss",
           ["rdma/tcp/tcp_protocol.hpp", "rdma/memory_rows.hpp#memory_rows",
            "rdma/memory_rows.hpp#data_service", "common/page_status.hpp"]),
    Format("verbs_wire_version", "rdma/verbs/verbs_protocol.hpp",
           "the handshake before READs, and the slot entry that is READ",
           "the rail refuses the reader's hello, which takes TCP then (`data_plane = auto`)",
           ["rdma/verbs/verbs_protocol.hpp", "rdma/memory_rows.hpp#data_service", "common/slot_entry.hpp"]),
    Format("handoff_wire_version", "handoff/messages.hpp",
           "what prefill and decode workers, and transfer workers, say to each other",
           "a worker refuses the other's hello; rooms and transfers between the two fail",
           ["handoff/messages.hpp", "handoff/messages.cpp", "handoff/layout_codec.cpp", "handoff/lease_codec.cpp",
            "handoff/transfer_messages.hpp", "handoff/transfer_codec.cpp", "handoff/memory_range.hpp#memory_range",
            "handoff/kv_layout.hpp#state_type", "handoff/lease_table.cpp#lease_key", "common/byte_codec.hpp"]),
    Format("shard_layout_version", "directory/shard_layout.hpp",
           "a directory shard's memory, which other hosts READ",
           "a reader asks the shard's node instead",
           ["directory/shard_layout.hpp", "directory/shard_layout.cpp",
            "directory/word_digest.hpp"]),
    Format("pool_layout_version", "storage/pool_header.hpp",
           "the pool's shared memory",
           "a client refuses the pool of its node; a node makes a new pool in place of the dead one's",
           ["storage/pool_header.hpp", "common/slot_entry.hpp", "storage/client_entry.hpp", "common/key_epoch.hpp",
            "storage/host_index.hpp#bucket", "storage/host_index.cpp#place_of", "storage/epoch_table.hpp#epoch_block",
            "storage/pool_note.hpp#note_block", "storage/hold_table.hpp#hold_block", "storage/hold_table.cpp#word_of",
            "storage/hold_table.cpp#next_word", "storage/hold_table.cpp#is_live"]),
    Format("folder_format", "storage/disk/folder_claim.cpp",
           "how the files of a disk tier are called and to be understood",
           "the node's disk tier stays off, and `peercache status` says why",
           ["storage/disk/folder_claim.cpp#text_of", "storage/disk/file_per_key/file_names.hpp", "storage/disk/file_per_key/file_names.cpp",
            "storage/disk/bucket/bucket_format.cpp#bucket_path", "storage/disk/offset/rocks_index.cpp#sequence_note",
            "storage/disk/offset/rocks_index.cpp#to_rocks"]),
    Format("record_version", "storage/disk/record.hpp",
           "the header of a page on disk",
           "the start's scan takes the page for foreign and does not keep it",
           ["storage/disk/record.hpp#record_header", "storage/disk/record.cpp#seal", "common/key_epoch.hpp"]),
    Format("bucket_version", "storage/disk/bucket/bucket_format.hpp",
           "the trailer of a bucket",
           "the start's scan takes all pages of the bucket for foreign and does not keep them",
           ["storage/disk/bucket/bucket_format.hpp#bucket_trailer", "storage/disk/bucket/bucket_format.cpp#make_footer",
            "storage/disk/bucket/bucket_format.cpp#place_group"]),
    Format("magic", "storage/disk/cleared_file.cpp",
           "the file in which a disk tier keeps what was cleared",
           "the node's disk tier stays off, and `peercache status` says why",
           ["storage/disk/cleared_file.cpp#write_cleared"]),
    Format("encoding_version", "actors/clearing/cleared_spaces.cpp",
           "what nodes tell each other and keep of cleared spaces",
           "who reads it takes it for malformed; a disk tier that keeps it stays off",
           ["actors/clearing/cleared_spaces.cpp#encode", "actors/clearing/cleared_spaces.cpp#encode_for_disk", "actors/clearing/cleared_spaces.cpp#tell",
            "actors/life_record.cpp#encode_record"]),
]

# Headers with messages that stay inside one process, although their folder has messages that travel.
INSIDE_ONE_PROCESS = ["link/protocol/disk.hpp", "link/protocol/pool.hpp", "link/protocol/topology.hpp"]

# Constants that are named like format versions but do not version any encoding that this script compares.
NO_VERSIONS = ["actors/monitoring/overview_json.hpp:api_format"]

LITERAL = r"""(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)" | "(?:[^"\\\n]|\\.)*"
      | (?<![0-9a-zA-Z_])'(?:[^'\\\n]|\\.)+'"""
COMMENT_OR_LITERAL = re.compile(r"(?P<comment>//[^\n]*|/\*.*?\*/) | " + LITERAL, re.VERBOSE | re.DOTALL)
VERSION_CONSTANT = re.compile(r"\bconstexpr\b[^;=(]*?\b(\w*(?:_version|_format))\s*=")


def without_comments(text):
    return COMMENT_OR_LITERAL.sub(lambda match: " " if match["comment"] else match[0], text)


def without_white_space(code):
    """Code without white space, except in its literals."""
    kept = []
    for match in re.finditer(LITERAL + r"|\s+|[^\s\"']+|[\"']", code, re.VERBOSE | re.DOTALL):
        kept.append("" if match[0].isspace() else match[0])
    return "".join(kept)


def value_of(text, constant):
    """The value that the text gives to the constant; None when it gives none."""
    found = re.search(r"\bconstexpr\b[^;=]*\b" + constant + r"\s*=\s*([^;]+);", without_comments(text))
    return found[1].strip().strip('"') if found else None


def block_from(code, opening):
    depth = 0
    for at in range(opening, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at + 1
    return len(code)


def definitions_of(code, name):
    """The texts of all types, namespaces and functions called `name` that the code defines."""
    kinds = r"\b(?:struct|class|enum class|namespace)\s+(?:alignas\(\w+\)\s+)?" + name + r"\b[^;{(]*\{"
    function = r"\b" + name + r"\([^;{}]*\)[^;{}()]*\{"
    return [code[match.start():block_from(code, match.end() - 1)] for match in re.finditer(kinds + "|" + function, code)]


def digest_of(text, version, name=""):
    """The digest of code that makes bytes. Comments, includes, white space and the version itself do not count."""
    code = re.sub(r"^[ \t]*#[ \t]*(?:include|pragma)\b[^\n]*", "", without_comments(text), flags=re.MULTILINE)
    code = re.sub(r"(\b" + version + r"\s*=\s*)[^;]+;", r"\1;", code)
    if name:
        code = "".join(definitions_of(code, name))
    return hashlib.sha256(without_white_space(code).encode()).hexdigest()[:16] if code else None


def expanded(root, form):
    """The files of a format: (the word for the file in the list of digests, path, name or "") of each."""
    for word in form.files:
        path, _, name = word.partition("#")
        if "*" not in path:
            yield word, path, name
            continue
        for file in sorted(root.glob(path)):
            found = file.relative_to(root).as_posix()
            if found not in INSIDE_ONE_PROCESS:
                yield found, found, name


class Now:
    """The versions and digests of a tree as it is now, and what is wrong with the list of formats itself."""

    def __init__(self, root, formats):
        self.versions, self.digests, self.faults = {}, {}, []
        for form in formats:
            self._read_format(root, form)
        self._find_unlisted(root, formats)

    def _read_format(self, root, form):
        home = root / form.home
        value = value_of(home.read_text(), form.version) if home.exists() else None
        if value is None:
            self.faults.append(f"{form.home}:1: there is no constant {form.version}, which scripts/check_wire.py lists")
            return
        self.versions[form.name] = value
        for word, path, name in expanded(root, form):
            text = (root / path).read_text() if (root / path).exists() else ""
            digest = digest_of(text, form.version, name)
            if digest is None:
                self.faults.append(f"{path}:1: there is no {name or 'such file'}, which scripts/check_wire.py lists under "
                                   f"{form.version}")
                continue
            self.digests[form.name, word] = digest
            if path.endswith(".hpp") and not re.search(rf"\b{form.version}\b", text):
                self.faults.append(f"{path}:1: its bytes are {form.version}'s, and it does not say so: name it in the "
                                   "comment that describes them")

    def _find_unlisted(self, root, formats):
        listed = {(form.home, form.version) for form in formats}
        for path in sources(root):
            if path.split("/")[0] in EVERYTHING:
                continue
            for match in VERSION_CONSTANT.finditer(without_comments((root / path).read_text())):
                if (path, match[1]) not in listed and f"{path}:{match[1]}" not in NO_VERSIONS:
                    self.faults.append(f"{path}:1: {match[1]} is a version that scripts/check_wire.py does not list: say in "
                                       "FORMATS what it covers and who refuses whom")


def read_digests(text):
    """Reads the file of digests: {format: (version, {file: digest})}."""
    known = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, version, word, digest = line.split("\t")
            known.setdefault(name, (version, {}))[1][word] = digest
    return known


def write_digests(now):
    lines = ["# Written by scripts/check_wire.py --update, never by hand: version, its value, file, digest."]
    for (name, word), digest in sorted(now.digests.items()):
        lines.append(f"{name}\t{now.versions[name]}\t{word}\t{digest}")
    return "\n".join(lines) + "\n"


def changed_files(now, known, name):
    before = known.get(name, (None, {}))[1]
    here = {word: digest for (of, word), digest in now.digests.items() if of == name}
    return sorted(word for word in before.keys() | here.keys() if before.get(word) != here.get(word))


def forgotten_versions(now, known, form):
    value = now.versions[form.name]
    if form.name in known and known[form.name][0] == value:
        for word in changed_files(now, known, form.name):
            path = word.partition("#")[0]
            yield (f"{path}:1: {word} changed and {form.version} is still {value}: raise it in {form.home}, then run "
                   "scripts/check_wire.py --update; if the bytes are as before, only scripts/check_wire.py --update "
                   "--same-version")


def needless_versions(now, known, form):
    before, value = known.get(form.name, (None,))[0], now.versions[form.name]
    if before not in (None, value) and not changed_files(now, known, form.name):
        yield (f"{form.home}:1: {form.version} went from {before} to {value} and nothing that it covers changed: take it "
               "back, or list what did in scripts/check_wire.py")


def unrecorded_versions(now, known, form):
    before, value = known.get(form.name, (None,))[0], now.versions[form.name]
    if before != value and changed_files(now, known, form.name):
        yield (f"{form.home}:1: {form.version} is {value}, and {DIGESTS} has not heard of it: run scripts/check_wire.py "
               "--update")


def table_of(now, formats):
    """The table of formats for docs/upgrades.md."""
    lines = ["| version | now | file | covers | who refuses whom |", "|---|---|---|---|---|"]
    for form in formats:
        lines.append(f"| `{form.version}` | {now.versions[form.name]} | `{form.home}` | {form.covers} | {form.refusal} |")
    return "\n".join(lines)


def with_table(text, table):
    head, _, rest = text.partition(BEGIN)
    return f"{head}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def faults(root, formats=None):
    formats = FORMATS if formats is None else formats
    now = Now(root, formats)
    yield from now.faults
    known = read_digests((root / DIGESTS).read_text()) if (root / DIGESTS).exists() else {}
    for form in formats:
        if form.name in now.versions:
            for judge in (forgotten_versions, needless_versions, unrecorded_versions):
                yield from judge(now, known, form)
    document = (root / TABLE).read_text() if (root / TABLE).exists() else ""
    if not now.faults and (BEGIN not in document or with_table(document, table_of(now, formats)) != document):
        yield f"{TABLE}:1: its table is not what the code says: run scripts/check_wire.py --update"


def update(root, same_version=False, formats=None):
    """Records the digests of the tree as it is now. @return why that is refused, if it is."""
    formats = FORMATS if formats is None else formats
    now = Now(root, formats)
    if now.faults:
        return now.faults
    known = read_digests((root / DIGESTS).read_text()) if (root / DIGESTS).exists() else {}
    refusals = [fault for form in formats for fault in needless_versions(now, known, form)]
    if not same_version:
        refusals += [fault for form in formats for fault in forgotten_versions(now, known, form)]
    if refusals:
        return refusals
    (root / DIGESTS).write_text(write_digests(now))
    document = root / TABLE
    document.write_text(with_table(document.read_text(), table_of(now, formats)))
    return []


def main(words):
    root = pathlib.Path(".")
    if words in (["--update"], ["--update", "--same-version"]):
        found = update(root, "--same-version" in words)
    elif not words:
        found = list(faults(root))
    else:
        print("usage: scripts/check_wire.py [--update [--same-version]]")
        return 2
    print("\n".join(found) or "wire: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
