"""Tests that scripts/check_history.py finds each kind of fault in small handmade histories, and nothing in good
ones."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_history.py"
sys.path.insert(0, str(SCRIPT.parent))

from check_history import History, NoHistory, faults  # noqa: E402

END = 10_000_000


def history_of(*events, end=END):
    return History(["history 1", *events, f"end {end}"])


def found(*events, end=END):
    return list(faults(history_of(*events, end=end)))


def put(key="k", version="v1", content="c1", at=100, process="p", length=64):
    return f"put {at} {process} {key} {version} {length} {content}"


def hold(key="k", version="v1", content="c1", at=150, process="p", length=64):
    return f"hold {at} {process} {key} {version} {length} {content}"


def get(*hits, call="1", began=200, returned=300, deadline=1_000_200, process="r"):
    """Returns the history's lines for a get and its hits, given as (key, version, content, holder)."""
    lines = [f"ask {call} {began} {deadline} {process} get"]
    lines += [f"hit {call} {key} {version} 64 {content} {holder}" for key, version, content, holder in hits]
    return [*lines, f"return {call} {returned}"]


GOOD = ("k", "v1", "c1", "-")


class finds(unittest.TestCase):
    def expect(self, sentence, *events, end=END):
        said = found(*events, end=end)
        self.assertEqual(len(said), 1, said)
        self.assertIn(sentence, said[0])

    def expect_good(self, *events, end=END):
        self.assertEqual(found(*events, end=end), [])


class hits(finds):
    def test_of_what_was_put_are_good(self):
        self.expect_good(put(), *get(GOOD))
        self.expect_good(put(), put(version="v2", content="c2", at=110), *get(GOOD))

    def test_of_a_put_that_began_while_the_get_ran_are_good(self):
        self.expect_good(put(at=299), *get(GOOD))

    def test_of_a_version_that_nobody_put(self):
        self.expect("nobody put version v2", put(), *get(("k", "v2", "c2", "-")))

    def test_of_another_keys_version(self):
        self.expect("was put under other", put(key="other"), *get(GOOD))

    def test_of_a_version_that_is_put_only_later(self):
        self.expect("was put only later", put(at=301), *get(GOOD))

    def test_of_bytes_that_are_not_the_versions(self):
        self.expect("its bytes are not those", put(), *get(("k", "v1", "torn", "-")))

    def test_of_another_length(self):
        self.expect("never had 64 bytes", put(length=128), *get(GOOD))

    def test_that_disagree(self):
        said = found(put(), *get(GOOD), *get(("k", "v1", "torn", "-"), call="2", began=400, returned=500))
        self.assertTrue(any("two hits disagree" in sentence for sentence in said), said)

    def test_of_one_version_that_was_put_with_two_contents_prove_nothing(self):
        self.expect("two contents of k", put(), put(content="c2"), *get(GOOD))

    def test_after_a_remove_are_allowed(self):
        self.expect_good(put(), "ask 9 160 1000160 p remove", "return 9 170", *get(GOOD))


class holders(finds):
    def hit(self, **call):
        return get(("k", "v1", "c1", "p"), **call)

    def test_that_hold_the_page_during_the_call_are_good(self):
        self.expect_good(put(), hold(), *self.hit())
        self.expect_good(put(), hold(at=299), *self.hit())
        self.expect_good(put(), hold(), "drop 201 p k", *self.hit())
        self.expect_good(put(), hold(), "drop 160 p k", hold(at=250), *self.hit())

    def test_that_put_another_version_only(self):
        self.expect("p never put version v1", put(process="q"), *self.hit())

    def test_that_never_had_it_in_place(self):
        self.expect("p never had version v1", put(), hold(key="other"), *self.hit())

    def test_that_had_dropped_it_before_the_call(self):
        self.expect("at no moment of the call", put(), hold(), "drop 199 p k", *self.hit())

    def test_that_have_it_in_place_after_the_call(self):
        self.expect("at no moment of the call", put(), hold(at=301), *self.hit())

    def test_that_have_another_version_in_its_place_by_then(self):
        self.expect("at no moment of the call", put(), put(version="v2", content="c2"), hold(),
                    hold(version="v2", content="c2", at=180), *self.hit())

    def test_may_hold_what_another_process_put(self):
        self.expect_good(put(process="before"), hold(), *self.hit())


class clears(finds):
    KEY = "space/k"

    def hit(self, began):
        return get((self.KEY, "v1", "c1", "-"), began=began, returned=began + 100)

    def test_end_the_hits_of_calls_that_begin_afterwards(self):
        self.expect("was cleared before", put(key=self.KEY), "clear 150 190 space", *self.hit(200))

    def test_leave_calls_that_began_before_and_pages_that_are_set_again(self):
        self.expect_good(put(key=self.KEY), "clear 150 190 space", *self.hit(180))
        self.expect_good(put(key=self.KEY), "clear 150 190 space", put(key=self.KEY, at=160), *self.hit(200))

    def test_leave_other_spaces(self):
        self.expect_good(put(key=self.KEY), "clear 150 190 sp", *self.hit(200))


class calls(finds):
    def test_that_are_back_in_time_are_good(self):
        self.expect_good(put(), *get(GOOD, deadline=250, returned=50_250))

    def test_that_are_back_too_late(self):
        self.expect("r's get (call 1 at 200) was back 50.0 ms after", *get(deadline=250, returned=50_251))

    def test_of_a_process_that_stood_still_are_good(self):
        self.expect_good("stall 300 1000 r", *get(deadline=250, returned=50_900))
        self.expect_good("stall 300 1000 *", *get(deadline=250, returned=50_900))

    def test_are_not_excused_by_another_processs_stall(self):
        self.expect("late", "stall 300 1000 q", *get(deadline=250, returned=50_900))

    def test_are_not_excused_twice_by_one_moment(self):
        self.expect("late", "stall 300 1000 r", "stall 300 1000 *", *get(deadline=250, returned=51_100))

    def test_are_not_excused_by_a_stall_before_their_deadline(self):
        self.expect("late", "stall 0 250 r", *get(deadline=250, returned=50_900))

    def test_are_not_made_late_by_it_either(self):
        self.expect_good("stall 0 100 r", *get(deadline=250, returned=50_250))

    def test_that_never_come_back(self):
        self.expect("was not back", "ask 1 200 300 r get")

    def test_whose_process_ends_in_time_are_good(self):
        self.expect_good("ask 1 200 300 r get", "gone 400 r")

    def test_that_hang_until_their_process_ends(self):
        self.expect("was not back", "ask 1 200 300 r get", "gone 50301 r")

    def test_that_are_still_on_their_way_at_the_end_are_good(self):
        self.expect_good("ask 1 200 300 r get", end=50_300)


class views(finds):
    def view(self, stamp, at, process="p", members="p,q", issuer="i"):
        term, version = stamp.split(".")
        return f"view {at} {process} {term} {version} {issuer} {members}"

    def test_that_go_on_are_good(self):
        self.expect_good(self.view("1.1", 1), self.view("1.2", 2), self.view("2.1", 3))

    def test_that_go_back(self):
        for before, after in [("1.2", "1.1"), ("2.1", "1.9"), ("1.10", "1.9")]:
            self.expect(f"p went from {before} to {after}", self.view(before, 1), self.view(after, 2))

    def test_go_back_by_their_issuer_too(self):
        self.expect("back in views", self.view("1.1", 1, issuer="b"), self.view("1.1", 2, issuer="a"))

    def test_are_compared_in_the_order_of_their_times(self):
        self.expect_good(self.view("1.2", 2), self.view("1.1", 1))

    def test_of_another_process_do_not_matter(self):
        self.expect_good(self.view("1.2", 1), self.view("1.1", 2, process="q"))

    def test_without_a_common_member_are_another_clusters(self):
        self.expect_good(self.view("1.2", 1, members="q,s"), self.view("1.1", 2, members="p"))

    def test_of_one_stamp_have_the_same_members(self):
        self.expect("two views are called 1.1", self.view("1.1", 1),
                    self.view("1.1", 2, process="q", members="p"))


class files(unittest.TestCase):
    def refused(self, *lines):
        with self.assertRaises(NoHistory):
            History(lines)

    def test_that_are_no_whole_history_are_refused(self):
        self.refused()
        self.refused("history 1", put())
        self.refused("history 2", "end 1")
        self.refused(put(), "end 1")
        self.refused("history 1", "end 1", put())
        self.refused("history 1", "hug 1 p", "end 1")
        self.refused("history 1", "drop 1 p", "end 1")
        self.refused("history 1", "drop soon p k", "end 1")
        self.refused("history 1", "return 7 1", "end 1")
        self.refused("history 1", *get(), "return 1 400", "end 1")

    def test_have_comments_and_empty_lines(self):
        self.assertEqual(found("# a comment", "", put(), *get(GOOD)), [])

    def run_script(self, *words):
        return subprocess.run([sys.executable, "-B", SCRIPT, *words], capture_output=True, text=True, check=False)

    def test_are_judged_by_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            good, bad = pathlib.Path(folder) / "good", pathlib.Path(folder) / "bad"
            good.write_text("\n".join(["history 1", put(), *get(GOOD), "end 400"]))
            bad.write_text("\n".join(["history 1", *get(GOOD), "end 400"]))
            said = self.run_script(good)
            self.assertEqual(said.returncode, 0, said)
            self.assertIn("good: 1 puts, 1 asks, 1 hits", said.stdout)
            said = self.run_script(good, bad)
            self.assertEqual(said.returncode, 1, said)
            self.assertIn("nobody put version v1", said.stdout)
            missing = pathlib.Path(folder) / "missing"
            self.assertEqual(self.run_script(missing).returncode, 1)
            self.assertEqual(self.run_script("--if-recorded", missing).returncode, 77)


if __name__ == "__main__":
    unittest.main()
