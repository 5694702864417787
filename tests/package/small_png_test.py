#!/usr/bin/env python3
"""Pictures that are made small keep their size and, where they have few colours, every pixel."""
import pathlib
import random
import struct
import sys
import tempfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import small_png  # noqa: E402


def filtered(kind, row, above, step):
    """A row as PNG's filter of this number writes it, by the text of the standard."""
    def at(line, i):
        return line[i] if i >= 0 else 0

    def paeth(left, up, corner):
        distances = [abs(left + up - corner - one) for one in (left, up, corner)]
        return (left, up, corner)[distances.index(min(distances))]
    expected = {0: lambda i: 0, 1: lambda i: at(row, i - step), 2: lambda i: above[i],
                3: lambda i: (at(row, i - step) + above[i]) // 2,
                4: lambda i: paeth(at(row, i - step), above[i], at(above, i - step))}[kind]
    return bytes([kind]) + bytes((one - expected(i)) % 256 for i, one in enumerate(row))


def png(width, rows, step):
    """A file of rows of bytes, whose filters take turns."""
    above, body = bytes(width * step), b""
    for number, row in enumerate(rows):
        body += filtered(number % 5, row, above, step)
        above = row
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), 8, 2 if step == 3 else 6, 0, 0, 0)), (b"IDAT", zlib.compress(body)),
             (b"IEND", b"")]
    return small_png.SIGNATURE + b"".join(struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
                                          for name, content in parts)


def indexed(path):
    """The pixels of a picture with a palette, as shrink() writes it."""
    parts = dict(small_png.chunks(path.read_bytes()))
    width, height, depth = struct.unpack(">IIB", parts[b"IHDR"][:9])
    colours = [parts[b"PLTE"][i:i + 3] for i in range(0, len(parts[b"PLTE"]), 3)]
    packed, stride = zlib.decompress(parts[b"IDAT"]), (width * depth + 7) // 8
    out = b""
    for y in range(height):
        row = packed[y * (stride + 1) + 1:(y + 1) * (stride + 1)]
        for x in range(width):
            out += colours[row[x] if depth == 8 else (row[x // 2] >> (4 if x % 2 == 0 else 0)) & 15]
    return width, height, out


class SmallPng(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "a.png"
        self.random = random.Random(7)

    def write(self, width, height, step, colours):
        rows = [b"".join(self.random.choice(colours) for _ in range(width)) for _ in range(height)]
        self.path.write_bytes(png(width, rows, step))
        return b"".join(row[i:i + 3] for row in rows for i in range(0, len(row), step))

    def test_every_filter_is_read(self):
        for step in (3, 4):
            colours = [self.random.randbytes(step) for _ in range(500)]
            pixels = self.write(31, 20, step, colours)
            self.assertEqual(small_png.read(self.path), (31, 20, pixels))

    def test_few_colours_stay_as_they_are(self):
        for count in (9, 100):
            pixels = self.write(33, 20, 4, [self.random.randbytes(3) + b"\xff" for _ in range(count)])
            size = small_png.shrink(self.path, 50_000)
            self.assertEqual(size, self.path.stat().st_size)
            self.assertEqual(indexed(self.path), (33, 20, pixels))

    def test_many_colours_become_near_ones(self):
        colours = [bytes((value, 255 - value, value)) for value in range(256)]
        pixels = self.write(64, 64, 3, colours)
        small_png.shrink(self.path, 5000)
        _, _, found = indexed(self.path)
        self.assertLess(max(abs(one - other) for one, other in zip(pixels, found)), 17)

    def test_what_cannot_be_small_enough_is_said(self):
        self.write(64, 64, 3, [self.random.randbytes(3) for _ in range(4096)])
        with self.assertRaisesRegex(ValueError, "at most 100 are allowed"):
            small_png.shrink(self.path, 100)


if __name__ == "__main__":
    unittest.main()
