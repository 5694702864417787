"""Makes a picture of a page small enough for a repository: few colours, chosen for what is in it."""
import collections
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS = (128, 64, 32, 16)  # tried in this order, until it is small enough


def chunks(data):
    """Names and contents of a PNG file's chunks."""
    at = len(SIGNATURE)
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        yield name, data[at + 8:at + 8 + size]
        at += 12 + size


def unfiltered(packed, height, stride, step):
    """The rows of pixels: each byte was written as its difference from what PNG's five filters expect. step: bytes of a pixel."""
    above, rows, at = bytes(stride), [], 0
    for _ in range(height):
        kind, row = packed[at], bytearray(packed[at + 1:at + 1 + stride])
        at += 1 + stride
        for i in range(stride) if kind else ():
            left, up, corner = (row[i - step], above[i], above[i - step]) if i >= step else (0, above[i], 0)
            if kind == 4:
                guess = left + up - corner
                expected = min((left, up, corner), key=lambda one, guess=guess: abs(guess - one))  # the first of equals
            else:
                expected = (left, up, (left + up) // 2)[kind - 1]
            row[i] = (row[i] + expected) & 255
        above = bytes(row)
        rows.append(above)
    return rows


def read(path):
    """Width, height and the pixels as bytes of three, of a PNG as browsers write them: 8 bits, RGB or RGBA, not interlaced."""
    found = collections.defaultdict(bytes)
    for name, content in chunks(path.read_bytes()):
        found[name] += content
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", found[b"IHDR"])
    if depth != 8 or kind not in (2, 6) or interlaced:
        raise ValueError(f"{path}: no PNG with 8 bits of RGB or RGBA")
    step = 3 if kind == 2 else 4
    rows = unfiltered(zlib.decompress(found[b"IDAT"]), height, width * step, step)
    flat = b"".join(rows)
    if step == 3:
        return width, height, flat
    out = bytearray(width * height * 3)
    for channel in range(3):
        out[channel::3] = flat[channel::4]
    return width, height, bytes(out)


def palette_of(counts, size):
    """Colours for these: the box of colours that is widest, weighed by how often they are seen, is halved until there are enough."""
    boxes = [list(counts)]
    while len(boxes) < size:
        def width(box):
            spread = max(max(one[i] for one in box) - min(one[i] for one in box) for i in range(3))
            return spread * sum(counts[one] for one in box) ** 0.25
        widest = max(boxes, key=width)
        if len(widest) == 1:
            break
        channel = max(range(3), key=lambda i, box=widest: max(one[i] for one in box) - min(one[i] for one in box))
        widest.sort(key=lambda one, i=channel: one[i])
        middle = (widest[0][channel] + widest[-1][channel]) / 2
        cut = next(i for i, one in enumerate(widest) if one[channel] > middle) or 1
        boxes.remove(widest)
        boxes += [widest[:cut], widest[cut:]]
    # A box has the colour that is seen most often in it, so large areas keep theirs.
    return [(max(box, key=counts.get), box) for box in boxes]


def packed_png(width, height, rows, palette):
    """A PNG file of palette indices: 4 bits each where these are enough."""
    depth = 4 if len(palette) <= 16 else 8
    body = bytearray()
    for row in rows:
        if depth == 4:
            even = row if len(row) % 2 == 0 else row + b"\0"
            row = bytes((high << 4) | low for high, low in zip(even[::2], even[1::2]))
        body += b"\0" + row
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, 3, 0, 0, 0)), (b"PLTE", b"".join(bytes(one) for one in palette)),
             (b"IDAT", zlib.compress(bytes(body), 9)), (b"IEND", b"")]
    return SIGNATURE + b"".join(struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
                                for name, content in parts)


def shrink(path, most_bytes):
    """Writes the picture anew with the most colours of COLOURS with which it is small enough. Returns its size in bytes."""
    width, height, flat = read(path)
    pixels = list(zip(flat[::3], flat[1::3], flat[2::3]))
    counts = collections.Counter(pixels)
    for size in COLOURS:
        boxes = palette_of(counts, size)
        index = {colour: i for i, (_, box) in enumerate(boxes) for colour in box}
        flat_index = bytes(index[one] for one in pixels)
        rows = [flat_index[i * width:(i + 1) * width] for i in range(height)]
        data = packed_png(width, height, rows, [colour for colour, _ in boxes])
        if len(data) <= most_bytes:
            path.write_bytes(data)
            return len(data)
    raise ValueError(f"{path}: {len(data)} bytes with {COLOURS[-1]} colours, at most {most_bytes} are allowed")
