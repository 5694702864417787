#!/usr/bin/env python3
"""Plants violations in a small tree: check_layers.py must find each of them, and nothing in the clean tree."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import check_layers  # noqa: E402

CMAKE = """helix_module(base LIBS fmt)
helix_module(spec PURE DEPS base)
helix_module(core PURE DEPS spec)
helix_module(sim DEPS core)
"""


class CheckLayers(unittest.TestCase):
    def violations(self, files, cmake=CMAKE):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "CMakeLists.txt").write_text(cmake)
            for name in ("base", "spec", "core", "sim"):
                (root / "src" / name).mkdir(parents=True)
            for name, text in files.items():
                path = root / "src" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check_layers.check(root)

    def assert_found(self, files, words, cmake=CMAKE):
        found = self.violations(files, cmake)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_clean_tree_passes(self):
        self.assertEqual(self.violations({"core/a.h": '#include "base/b.h"\n#include <map>\n',
                                          "sim/a.cc": '#include "core/a.h"\n#include <thread>\n'}), [])

    def test_upward_include(self):
        self.assert_found({"core/a.h": '#pragma once\n#include "sim/faults/faulty_cluster.h"\n'}, ["core/a.h:2", "sim"])

    def test_include_of_an_unlisted_room(self):
        self.assert_found({"base/a.h": '#include "spec/b.h"\n'}, ["base/a.h:1", "spec"])

    def test_every_banned_header_in_every_pure_room(self):
        for header in ("thread", "mutex", "chrono", "random", "atomic", "unordered_map", "iostream"):
            for room in ("spec", "core"):
                self.assert_found({f"{room}/a.cc": f"#include <{header}>\n"}, [f"{room}/a.cc:1", header])

    def test_pure_rooms_stay_pure_when_the_word_is_dropped(self):
        self.assert_found({"core/a.cc": "#include <mutex>\n"}, ["core"], CMAKE.replace("PURE", ""))

    def test_cycle(self):
        cycle = CMAKE.replace("helix_module(base LIBS", "helix_module(base DEPS sim LIBS")
        self.assert_found({}, ["cycle"], cycle)

    def test_unknown_room(self):
        self.assert_found({"misc/a.h": ""}, ["src/misc"])

    PARTS = CMAKE + "helix_part(core kv)\nhelix_part(core worker DEPS kv)\n"

    def test_parts_that_keep_their_order_pass(self):
        files = {"core/kv/a.h": '#include "base/b.h"\n', "core/worker/b.h": '#include "core/kv/a.h"\n',
                 "core/top.cc": '#include "core/worker/b.h"\n', "sim/c.cc": '#include "core/worker/b.h"\n'}
        self.assertEqual(self.violations(files, self.PARTS), [])

    def test_part_that_includes_one_above_it(self):
        self.assert_found({"core/kv/a.h": '#include "core/worker/b.h"\n', "core/worker/b.h": ""},
                          ["core/kv/a.h:1", "core/worker"], self.PARTS)

    def test_part_that_includes_the_top(self):
        self.assert_found({"core/kv/a.h": '#include "core/top.h"\n'}, ["core/kv/a.h:1", "top"], self.PARTS)

    def test_part_that_includes_a_room_beyond_its_own(self):
        cmake = CMAKE + "helix_part(core kv ROOMS base)\nhelix_part(core worker DEPS kv)\n"
        above = {"core/worker/b.h": '#include "spec/a.h"\n#include "core/kv/a.h"\n'}
        self.assertEqual(self.violations({"core/kv/a.h": '#include "base/b.h"\n', **above}, cmake), [])
        self.assert_found({"core/kv/a.h": '#include "spec/b.h"\n', **above}, ["core/kv/a.h:1", "spec"], cmake)

    def test_unlisted_part(self):
        self.assert_found({"core/misc/a.h": ""}, ["src/core/misc"], self.PARTS)

    def test_cycle_of_parts(self):
        self.assert_found({"core/kv/a.h": ""}, ["cycle"],
                          CMAKE + "helix_part(core kv DEPS worker)\nhelix_part(core worker DEPS kv)\n")

    def test_units_that_include_each_other(self):
        self.assert_found({"core/a.h": '#include "core/b.h"\n', "core/b.h": "", "core/b.cc": '#include "core/a.h"\n'},
                          ["circle", "core/a -> core/b -> core/a"])

    def test_what_is_behind_a_pointer_belongs_to_its_class(self):
        self.assertEqual(self.violations({"core/a_state.h": '#include "core/a.h"\n', "core/a.h": "",
                                          "core/a.cc": '#include "core/a_state.h"\n'}), [])

    def test_include_without_path(self):
        self.assert_found({"core/a.cc": '#include "a.h"\n'}, ["core/a.cc:1"])

    def test_long_file(self):
        self.assert_found({"core/a.cc": "\n" * 900}, ["900 lines"])


if __name__ == "__main__":
    unittest.main()
