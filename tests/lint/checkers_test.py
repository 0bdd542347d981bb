"""Tests that the checkers of scripts/ find planted faults, and nothing in clean text."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import check_includes  # noqa: E402
import check_lengths  # noqa: E402
import check_style  # noqa: E402
from cpp_text import blanked, raw_string_lines  # noqa: E402

HEADER = "#pragma once\n\nnamespace peercache::%s {\n%s\n} // namespace peercache::%s\n"


class tree:
    """A temporary folder with these files, given as {"storage/slab.hpp": text}."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for path, text in files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def __enter__(self):
        return self.root

    def __exit__(self, *_):
        self.folder.cleanup()


def faults(checker, files):
    with tree(files) as root:
        return list(checker.faults(root))


class includes(unittest.TestCase):
    def include(self, path, line):
        return faults(check_includes, {path: line + "\n"})

    def test_a_folder_sees_itself_and_what_stands_above_it(self):
        for path, target in [("storage/a.cpp", "storage/a.hpp"), ("storage/a.cpp", "common/ids.hpp"),
                             ("actors/pool/a.cpp", "storage/a.hpp"), ("client/pool/a.cpp", "storage/slot_table.hpp"),
                             ("cli/a.cpp", "actors/node/node.hpp"), ("tests/cli/a.cpp", "rdma/x.hpp")]:
            self.assertEqual(self.include(path, f'#include "{target}"'), [], path)

    def test_a_folder_does_not_see_what_stands_below_or_beside_it(self):
        for path, target in [("common/a.cpp", "storage/a.hpp"), ("storage/a.cpp", "directory/shard.hpp"),
                             ("rdma/a.hpp", "storage/a.hpp"), ("metrics/a.cpp", "actors/a.hpp"),
                             ("client/a.cpp", "actors/node/node.hpp"), ("link/protocol/a.hpp", "actors/node/node.hpp"),
                             ("examples/a.cpp", "actors/node/node.hpp"), ("actors/a.cpp", "cli/command.hpp")]:
            found = self.include(path, f'#include "{target}"')
            self.assertEqual(len(found), 1, path)
            self.assertIn(f"{path}:1: ", found[0])

    def test_only_the_embedded_node_of_the_client_sees_the_composition_root(self):
        self.assertEqual(self.include("client/embedded_node.cpp", '#include "actors/node/node.hpp"'), [])

    def test_a_shared_header_is_seen_but_not_its_folder(self):
        self.assertEqual(self.include("client/notes/a.cpp", '#include "metrics/latency_histogram.hpp"'), [])
        self.assertEqual(len(self.include("client/notes/a.cpp", '#include "metrics/registry.hpp"')), 1)

    def test_library_headers_stay_behind_their_fence(self):
        for home, away, target in [
                ("actors/a.cpp", "directory/a.cpp", "caf/all.hpp"), ("rdma/verbs/a.cpp", "actors/a.cpp", "infiniband/verbs.h"),
                ("net/a.cpp", "discovery/a.cpp", "sys/socket.h"), ("storage/disk/io/a.cpp", "storage/a.cpp", "liburing.h"),
                ("config/a.cpp", "cli/a.cpp", "toml++/toml.h"), ("cli/a.cpp", "client/a.cpp", "CLI/CLI.hpp"),
                ("metrics/a.cpp", "actors/a.cpp", "prometheus/registry.h"), ("metrics/a.cpp", "cli/a.cpp", "httplib.h"),
                ("link/scribe.cpp", "actors/pool/pool_actor.cpp", "netinet/in.h")]:
            self.assertEqual(self.include(home, f"#include <{target}>"), [], target)
            self.assertEqual(len(self.include(away, f"#  include <{target}>")), 1, target)

    def test_a_path_is_from_the_root(self):
        self.assertEqual(len(self.include("storage/a.cpp", '#include "slab.hpp"')), 1)

    def test_a_folder_outside_the_table_is_a_fault(self):
        self.assertEqual(len(self.include("surprise/a.cpp", "")), 1)

    def test_build_folders_are_not_looked_at(self):
        self.assertEqual(self.include("build/release/a.cpp", '#include "x.hpp"'), [])


class permissions(unittest.TestCase):
    FILES = {"common/a.hpp": "#include <xxhash.h>\n", "config/a.cpp": '#include "common/a.hpp"\n',
             "config/open.cpp": '#include "client/a.hpp"\n', "client/a.hpp": '#include "config/plain.hpp"\n'}
    TABLES = {"FOLDERS": {"common": [], "config": ["common"], "client": []}, "FILES": {"config/open": ["client"]},
              "SHARED": {"config/plain.hpp": ["client"]}, "FENCES": {("xxhash.h",): ["common/"]}}

    def found(self, **changed):
        with mock.patch.multiple(check_includes, **{**self.TABLES, **changed}), tree(self.FILES) as root:
            return [*check_includes.unused_permissions(root), *check_includes.upward_permissions()]

    def expect(self, sentence, **changed):
        found = self.found(**changed)
        self.assertEqual(len(found), 1, found)
        self.assertIn(sentence, found[0])

    def test_that_are_used_pass(self):
        self.assertEqual(self.found(), [])

    def test_that_nobody_uses_are_faults(self):
        self.expect("client/ may include common/", FOLDERS={"common": [], "config": ["common"], "client": ["common"]})
        self.expect("config/shut may include common/", FILES={"config/open": ["client"], "config/shut": ["common"]})
        self.expect("config/ may include client/other.hpp",
                    SHARED={"config/plain.hpp": ["client"], "client/other.hpp": ["config"]})
        self.expect("config/ may include <xxhash.h>", FENCES={("xxhash.h",): ["common/", "config/"]})

    def test_of_a_folder_are_not_used_by_files_with_their_own_or_by_shared_headers(self):
        self.expect("client/ may include config/", FOLDERS={"common": [], "config": ["common"], "client": ["config"]})
        self.expect("config/ may include client/", FOLDERS={"common": [], "client": [], "config": ["common", "client"]})

    def test_that_go_up_in_the_table_are_faults_but_for_pairs(self):
        upside_down = {"config": ["common"], "common": [], "client": []}
        self.expect("config/ may include common/, which stands below it", FOLDERS=upside_down)
        self.assertEqual(self.found(FOLDERS=upside_down, PAIRS=[{"config", "common"}]), [])

    def test_of_this_tree_are_all_used(self):
        self.assertEqual(list(check_includes.unused_permissions(pathlib.Path(__file__).resolve().parents[2])), [])


def lengths_of(text):
    return {name: last - first + 1 for name, first, last in check_lengths.functions(text)}


class lengths(unittest.TestCase):
    def test_a_function_is_measured_from_its_signature_to_its_brace(self):
        self.assertEqual(lengths_of("namespace x {\n\nint f(int a,\n      int b) {\n  return a;\n}\n\n}\n"), {"f": 4})

    def test_methods_constructors_and_operators_are_found(self):
        text = ("class pool : public base {\npublic:\n  pool(int n) : size_{n}, rest_(n) {\n    go();\n  }\n"
                "  bool operator==(const pool&) const noexcept {\n    return true;\n  }\n"
                "  int size_{0};\n};\n"
                "template <class T>\nauto pool::get() const -> std::vector<T> {\n  return {};\n}\n")
        self.assertEqual(list(lengths_of(text).values()), [3, 3, 4 - 1])

    def test_lambdas_and_loops_belong_to_their_function(self):
        text = "void f() {\n  auto g = [](int x) {\n    if (x) {\n    }\n  };\n  for (;;) {\n  }\n}\n"
        self.assertEqual(lengths_of(text), {"f": 8})

    def test_tables_and_types_are_not_functions(self):
        text = "enum class a { x, y };\nconst int t[] = {\n1,\n2,\n};\nstruct alignas(64) s {\n  int a = 1;\n};\n"
        self.assertEqual(lengths_of(text), {})

    def test_braces_in_text_do_not_count(self):
        text = 'void f() {\n  say("}{"); // }\n  char c = \'{\'; /* { */\n  auto r = R"x(}}{)x";\n}\nvoid g() {}\n'
        self.assertEqual(lengths_of(text), {"f": 5, "g": 1})

    def test_a_digit_separator_is_no_quote(self):
        self.assertEqual(lengths_of("void f() {\n  g(1'000);\n}\nvoid h() {\n  g('}');\n}\n"), {"f": 3, "h": 3})

    def test_a_test_is_named_by_its_sentence(self):
        self.assertEqual(lengths_of("TEST(shard, keeps) {\n}\n"), {"shard.keeps": 2})

    def test_sixty_lines_pass_and_sixty_one_fail(self):
        for lines, count in [(60, 0), (61, 1)]:
            body = "void f() {\n" + "  g();\n" * (lines - 2) + "}\n"
            self.assertEqual(len(faults(check_lengths, {"rdma/a.cpp": body})), count)

    def test_lines_of_raw_strings_are_data(self):
        body = 'const char* f() {\n  return R"(' + "x\n" * 90 + ')";\n}\n'
        self.assertEqual(faults(check_lengths, {"rdma/a.cpp": body}), [])
        self.assertEqual(raw_string_lines('a\nR"(b\nc\nd)"\n'), {3, 4})

    def test_four_hundred_lines_pass_and_one_more_fails(self):
        for lines, count in [(400, 0), (401, 1)]:
            self.assertEqual(len(faults(check_lengths, {"rdma/a.cpp": "int a;\n" * lines})), count)


class style(unittest.TestCase):
    def found(self, path, text):
        return faults(check_style, {path: text})

    def test_a_clean_header_passes(self):
        self.assertEqual(self.found("rdma/a.hpp", HEADER % ("rdma", "struct a {};", "rdma")), [])
        self.assertEqual(self.found("rdma/a.hpp", "// What it is.\n" + HEADER % ("rdma", "struct a {};", "rdma")), [])

    def test_a_header_needs_its_pragma_and_its_namespace(self):
        self.assertEqual(len(self.found("rdma/a.hpp", "namespace peercache {\n}\n")), 1)
        self.assertEqual(len(self.found("rdma/a.hpp", "#pragma once\nstruct a {};\n")), 1)

    def test_leftover_words_fail_even_in_comments(self):
        for word in ["TO" + "DO", "FIX" + "ME", "X" + "XX"]:
            self.assertEqual(len(self.found("rdma/a.cpp", f"int a; // {word}: later\n")), 1, word)

    def test_a_comment_does_not_begin_with_a_genitive(self):
        for comment in ["int bytes = 0; ///< Of the footer.", "/// Of durable pages.", "  // Of two, the newer."]:
            self.assertEqual(len(self.found("storage/a.cpp", comment + "\n")), 1, comment)
        for comment in ["/// The bytes of the footer.", "int off = 0; // Often 0.", 'auto a = "http://Of";']:
            self.assertEqual(self.found("storage/a.cpp", comment + "\n"), [], comment)

    def test_a_comment_does_not_begin_with_a_pronoun_or_in_the_middle_of_a_sentence(self):
        for comment in ["int late = 0; ///< It may be late.", "/// Those that wait.", "// Else it would hang.",
                        "/// The same for one.", "// So many are enough.", "// Or it would never end."]:
            found = self.found("storage/a.cpp", comment + "\n")
            self.assertEqual(len(found), 1, comment)
            self.assertIn("names its subject", found[0])
        for comment in ["// An item.", "// Orders are sent.", "// So it ends.", "// Thatched."]:
            self.assertEqual(self.found("storage/a.cpp", comment + "\n"), [], comment)

    def test_a_later_line_of_a_comment_may_begin_with_a_pronoun(self):
        for text in ["/// A page that waits.\n/// It may be late.\nint a;\n",
                     "int a; ///< A page that waits.\n       ///< It may be late.\n",
                     "int a; // A page that waits.\n       // It may be late.\n"]:
            self.assertEqual(self.found("storage/a.cpp", text), [], text)
        for text in ["int a; ///< A page.\n/// It may be late.\nint b;\n", "int a; // A page.\nint b; // It is late.\n",
                     "// A page.\n\n// It is late.\n", "int a; // A page.\n// It is late.\nint b;\n"]:
            self.assertEqual(len(self.found("storage/a.cpp", text)), 1, text)

    def test_a_comment_does_not_begin_with_a_relative_pronoun_or_a_mere_this(self):
        for comment in ["// Who is refused waits.", "/// For who dials.", "int a; ///< One for each page.",
                        "// This is the pool.", "/// These make a page."]:
            found = self.found("storage/a.cpp", comment + "\n")
            self.assertEqual(len(found), 1, comment)
            self.assertIn("names its subject", found[0])
        for comment in ["// Whoever is refused waits.", "/// This node leaves.", "/// For whole pages.",
                        "// One page."]:
            self.assertEqual(self.found("storage/a.cpp", comment + "\n"), [], comment)

    def test_a_comment_does_not_point_at_another_line(self):
        for comment in ["/// A poll removes so many files.", "/// A lease stands for\n/// so long.",
                        "/// Nobody reads it any more.", "/// Sets it. To be called when it is full.",
                        "/// A full disk is no fault.", "/// Expels it from the own view."]:
            found = self.found("storage/a.cpp", comment + "\n")
            self.assertEqual(len(found), 1, comment)
            self.assertIn("plain at first reading", found[0])
        for comment in ["/// A poll removes this many files.", "/// A call takes so long that nobody waits.",
                        "int so_many;", "/// Nobody reads it, and any more would be refused.",
                        "/// Call when it is full.",
                        "/// A full disk is not a fault; there is no disk.",
                        "/// A page is no longer read, and is no newer."]:
            self.assertEqual(self.found("storage/a.cpp", comment + "\n"), [], comment)

    def test_comments_and_docstrings_of_python_name_their_subject_too(self):
        for text in ["# It may be late.\n", "a = 1  # Of the footer.\n", '"""Else it hangs."""\n',
                     'class a:\n    b: int\n    """Those that wait."""\n', "# A page.\na = 1\n# It is late.\n",
                     'def f():\n    """Removes\n    so many files."""\n']:
            for path in ["python/a.py", "python/a.pyi"]:
                self.assertEqual(len(self.found(path, text)), 1, text)
        for text in ["# A page that waits.\n# It may be late.\n", "#!/usr/bin/env python3\na = 'It is'  # A page.\n",
                     '"""A page.\n\nIt may be late.\n"""\n', 'f("Of so many.")\n', 'a = """# It is late."""\n']:
            self.assertEqual(self.found("python/a.py", text), [], text)

    def test_a_sentence_of_a_document_names_its_subject_too(self):
        for text in ["It waits. Who asks is refused.\n", "Before:\n\nOf these, two.\n", "- Nor does it wait.\n",
                     "| a | Whose link\nbroke is out. |\n"]:
            self.assertEqual(len(self.found("docs/a.md", text)), 1, text)
        for text in ["Whoever asks waits.\n", "All of them,\nOf course.\n", "| Who asks? | nobody |\n", "Why? Who knows?\n"]:
            self.assertEqual(self.found("docs/a.md", text), [], text)

    def test_a_tag_does_not_end_a_line_of_a_comment(self):
        for tag in ["@pre", "@param", "@return"]:
            self.assertEqual(len(self.found("storage/a.cpp", f"/// Opens it. {tag}\n/// closed\nint a;\n")), 1, tag)
        self.assertEqual(self.found("storage/a.cpp", "/// Opens it.\n///\n/// @pre closed\nint a;\n"), [])

    def test_quiet_rings_do_not_sleep_and_real_ones_may(self):
        for call in ["std::this_thread::sleep_for(1s);", "usleep(5);", "::sleep(1);"]:
            self.assertEqual(len(self.found("tests/rdma/a_test.cpp", f"void f() {{ {call} }}\n")), 1, call)
            self.assertEqual(self.found("tests/real/a_test.cpp", f"void f() {{ {call} }}\n"), [])

    def test_a_comment_may_speak_of_sleep(self):
        self.assertEqual(self.found("tests/rdma/a_test.cpp", "// no sleep_for( here\n"), [])

    def test_the_wall_clock_is_the_logs(self):
        use = "auto t = std::chrono::system_clock::now();\n"
        self.assertEqual(len(self.found("rdma/a.cpp", use)), 1)
        self.assertEqual(self.found("common/log.cpp", use), [])

    def test_nothing_is_remotely_writable(self):
        for right in ["WRITE", "ATOMIC"]:
            self.assertEqual(len(self.found("rdma/a.cpp", f"int f = IBV_ACCESS_REMOTE_{right};\n")), 1)
        self.assertEqual(self.found("rdma/a.cpp", "int f = IBV_ACCESS_REMOTE_READ;\n"), [])


class text(unittest.TestCase):
    def test_blanking_keeps_every_line_break(self):
        source = '#include "a.hpp"\n// b\n/* c\nd */ int x = f("e\\"", \'"\');\nauto r = R"(\n\n)";\n'
        self.assertEqual(blanked(source).count("\n"), source.count("\n"))
        self.assertEqual(blanked('f("a", 1); // b'), 'f("", 1); ')


if __name__ == "__main__":
    unittest.main()
