#!/usr/bin/env python3
"""Plants citations and long pages: check_words.py must find each of them, and nothing in clean text."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import check_words  # noqa: E402


class CheckWords(unittest.TestCase):
    def violations(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            subprocess.run(["git", "init", "-q", folder], check=True)
            for name, data in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data if isinstance(data, bytes) else data.encode())
            subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
            return check_words.check(root)

    def assert_found(self, files, words):
        found = self.violations(files)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_clean_text_passes(self):
        self.assertEqual(self.violations({
            "README.md": "word " * 650,
            "docs/models.md": "GPU 0 and a paper; docs/models.md; HELIX_BENCH_PEERS; FEATURES_X; new features\n"}), [])

    def test_every_way_to_cite(self):
        for text in ("(FEATURES H14)", "FEATURES section 4", "PAPER.md 3.2", "STYLE B.8c", "OPTIMISER's B2", "(FEATURES",
                     "see DESIGN-2.md", "GPU.md section 3", "PEERS: five others"):
            self.assert_found({"src/core/a.h": f"#pragma once\n// Pages of one worker, {text}.\n"}, ["src/core/a.h:2"])

    def test_long_readme(self):
        self.assert_found({"README.md": "word " * 651}, ["README.md", "651 words"])

    def test_other_pages_may_be_long_and_binary_files_are_not_read(self):
        self.assertEqual(self.violations({"docs/api.md": "word " * 900, "models/a.gguf": b"\0 FEATURES H1"}), [])


if __name__ == "__main__":
    unittest.main()
