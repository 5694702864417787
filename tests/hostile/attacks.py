"""What a hostile client or peer does. Each attack is a function of the bed; its comment says what it
did where nothing limits it.

An attack returns a sentence about what it saw. An AssertionError says what should have been otherwise.
"""
import asyncio
import json
import os
import resource
import socket
import struct
import time

from bed import exchange, get, post, streams

ATTACKS = {}


def attack(function):
    ATTACKS[function.__name__.replace("_", "-")] = function
    return function


def refused(what, answer):
    """A 4xx whose text names a limit or says what is wrong."""
    status, _, body = answer
    assert 400 <= status < 500, f"{what}: {status} {body[:200]!r} and not a 4xx"
    message = json.loads(body)["error"]["message"]
    assert message, f"{what}: a refusal without a reason"
    return f"{status} {message}"


def ends(what, answer):
    """Any answer that is not the death of the server: done, or refused by an error that says why."""
    status, _, body = answer
    assert status in (200, 400, 408, 413, 422, 429, 431, 500, 503), f"{what}: status {status}, {body[:200]!r}"
    if status == 200:
        return "200"
    return f"{status} {json.loads(body)['error']['message'][:160]}"


def hostile_grammar():
    """2.4 KB whose masks visit more states than memory holds."""
    rule = " | ".join(f"[^{chr(97 + i % 26)}{chr(65 + i // 26)}]*" for i in range(60))
    root = " | ".join(f'r "{i}!"' for i in range(150))
    return f"root ::= {root}\nr ::= {rule}\n"


@attack
async def grammar_with_endless_masks(bed):
    # Stalled a worker for 206 s with 6 GB, and then the next worker.
    body = {"model": "default", "prompt": "a", "max_tokens": 1, "grammar": hostile_grammar()}
    return ends("the grammar", await post(bed.port, "/v1/completions", body, limit_s=120))


@attack
async def schema_of_many_alternatives(bed):
    # 63 KB took 7.5 s and 1.7 GB.
    schema = {"enum": [[]] * 19000, "anyOf": [{"title": "a"}] * 450}
    return ends("the schema", await post(bed.port, "/v1/chat/completions", chat("hi", response_format=of_schema(schema))))


@attack
async def schema_with_much_required(bed):
    # Merging took 1.6 s.
    names = [f"{i:x}" for i in range(4000)]
    schema = {"type": "object", "allOf": [{"required": names}, {"required": names[::-1]}]}
    return ends("the schema", await post(bed.port, "/v1/chat/completions", chat("hi", response_format=of_schema(schema))))


@attack
async def deep_json(bed):
    said = []
    for text in (b"[" * 200_000, b'{"a":' * 100_000, b'{"messages":' + b"[" * 200_000):
        said.append(refused("deep JSON", await post(bed.port, "/v1/chat/completions", text)))
    return said[0]


@attack
async def text_of_noncharacters(bed):
    # Froze the API for minutes: every replacement moved the rest of the text.
    said = [ends("U+FDD0", await post(bed.port, "/v1/chat/completions", chat("\ufdd0" * 1_300_000), limit_s=120)),
            ends("<s>", await post(bed.port, "/v1/chat/completions", chat("<s>" * 1_000_000), limit_s=120))]
    return "; ".join(said)


@attack
async def one_endless_word(bed):
    said = []
    for text in ("a" * 3_000_000, " " * 3_000_000, "\U0001f600" * 700_000, "ab\u0301" * 700_000):
        said.append(ends("a long word", await post(bed.port, "/v1/completions",
                                                   {"model": "default", "prompt": text, "max_tokens": 1}, limit_s=120)))
    return said[0]


@attack
async def stop_for_every_choice(bed):
    # 3.9 GB: each of 1,024 choices had a copy.
    body = {"model": "default", "prompt": ["a"] * 8, "n": 128, "max_tokens": 1, "stop": "x" * 3_900_000}
    return refused("the stop", await post(bed.port, "/v1/completions", body))


@attack
async def tool_calls_of_many_members(bed):
    # 3.9 s on the thread that answers everybody.
    arguments = json.dumps({str(i): 0 for i in range(2700)}, separators=(",", ":"))
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": arguments}} for i in range(100)]
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": calls},
                {"role": "user", "content": "b"}]
    return ends("tool calls", await post(bed.port, "/v1/chat/completions",
                                         {"model": "default", "messages": messages, "max_tokens": 1}))


async def endless(bed, head, piece, limit_bytes):
    """Sends the piece again and again until the server ends it; (bytes that were sent, what it said)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", bed.port, limit=1 << 24)
    sent = 0
    answering = asyncio.create_task(reader.read(1 << 16))
    try:
        writer.write(head)
        while sent < limit_bytes and not answering.done():
            writer.write(piece)
            sent += len(piece)
            await asyncio.wait_for(writer.drain(), 30)
            await asyncio.sleep(0)
    except OSError:
        pass
    answer = b""
    try:
        answer = await asyncio.wait_for(answering, 10)
    except (OSError, asyncio.TimeoutError):
        pass
    writer.close()
    return sent, answer.split(b"\r\n")[0].decode("latin-1")


@attack
async def endless_chunk_heads(bed):
    # One connection took all memory in 21 s.
    head = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece, most, said = b"a" * 65536, 400 << 20, []
    for what, start in (("extension", b"1;"), ("size", b"0" * 100), ("trailer", b"0\r\nx: ")):
        sent, answer = await endless(bed, head + start, b"0" * 65536 if what == "size" else piece, most)
        assert sent < most // 4, f"an endless {what} was read to {sent >> 20} MB"
        said.append(f"{what} {answer or 'closed'}")
    return "; ".join(said)


@attack
async def many_partial_bodies(bed):
    # 500 of them held 1.3 GB for 65 s.
    part = b'{"prompt": "' + b"a" * (2_700_000)
    head = (b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 4000000\r\n\r\n")
    held, refusals = [], 0

    async def one():
        nonlocal refusals
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", bed.port)
            held.append(writer)
            writer.write(head + part)
            await asyncio.wait_for(writer.drain(), 20)
            if (await asyncio.wait_for(reader.read(64), 1)).startswith(b"HTTP/1.1 4"):
                refusals += 1
        except (OSError, asyncio.TimeoutError):
            pass
    for _ in range(10):
        await asyncio.gather(*(one() for _ in range(50)))
    for writer in held:
        writer.close()
    return f"{refusals} of 500 refused"


@attack
async def smuggling(bed):
    # "chunked, identity" was read as chunked: a proxy in front may see another end of the request.
    body = json.dumps({"model": "default", "prompt": "a", "max_tokens": 1}).encode()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    length = b"Content-Length: %d\r\n" % len(body)
    said = []
    for name, lines, sent in (("chunked, identity", b"Transfer-Encoding: chunked, identity\r\n", chunked),
                              ("identity, chunked", b"Transfer-Encoding: identity, chunked\r\n", chunked),
                              ("twice", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked),
                              ("both", b"Transfer-Encoding: chunked\r\n" + length, chunked),
                              ("two lengths", length + b"Content-Length: 6\r\n", body),
                              ("space", b"Content-Length : %d\r\n" % len(body), body),
                              ("plus", b"Content-Length: +%d\r\n" % len(body), body)):
        status = (await exchange(bed.port, b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                                 b"Content-Type: application/json\r\n" + lines + b"\r\n" + sent))[0]
        assert status in (400, 501), f"{name}: status {status}"
        said.append(f"{name} {status}")
    return ", ".join(said)


def greet(port):
    """A connection to the cluster port that has shaken hands, as any peer's library does."""
    peer = socket.create_connection(("127.0.0.1", port), timeout=5)
    peer.sendall(zmtp_greeting() + zmtp_ready())
    said = b""
    while b"READY" not in said:
        piece = peer.recv(256)
        if not piece:
            raise ConnectionError("the handshake was refused")
        said += piece
    return peer


@attack
async def junk_at_the_cluster_port(bed):
    # 2,533 of 30,588 innocent HTTP connections were cut, and 54,000 lines logged.
    innocent = {"asked": 0, "cut": 0}
    over = False

    async def ask():
        while not over:
            innocent["asked"] += 1
            try:
                if (await get(bed.port, "/health"))[0] != 200:
                    innocent["cut"] += 1
            except (OSError, asyncio.TimeoutError, ValueError):
                innocent["cut"] += 1

    def junk():
        end = time.monotonic() + 4
        while time.monotonic() < end:
            try:
                peer = greet(bed.cluster_port)
                peer.sendall(zmtp_frame(b"\x00\xff junk", more=True) +
                             zmtp_frame(b"\xff" * 40, more=False))
                peer.close()
            except OSError:
                pass
    before = len(bed.log("coordinator").splitlines())
    clients = [asyncio.create_task(ask()) for _ in range(8)]
    await asyncio.gather(*(asyncio.to_thread(junk) for _ in range(4)))
    over = True
    await asyncio.gather(*clients)
    lines = len(bed.log("coordinator").splitlines()) - before
    assert innocent["cut"] == 0, f"{innocent['cut']} of {innocent['asked']} innocent connections were cut"
    assert lines < 300, f"{lines} lines were logged"
    return f"{innocent['asked']} innocent connections, none cut; {lines} log lines"


def zmtp_greeting():
    return b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + b"\0" * 31


def zmtp_ready():
    body = b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    return b"\x04" + bytes([len(body)]) + body


def zmtp_frame(body, more):
    if len(body) < 256:
        return bytes([1 if more else 0, len(body)]) + body
    return bytes([3 if more else 2]) + struct.pack(">Q", len(body)) + body


@attack
async def endless_multipart(bed):
    # 2.5 GB in 2.7 s: a message is given out when its last frame is there.
    def flood():
        sent = 0
        try:
            peer = greet(bed.cluster_port)
            peer.settimeout(2)
            frames = zmtp_frame(b"a" * 60_000, more=True) * 16
            end = time.monotonic() + 8
            while sent < (1500 << 20) and time.monotonic() < end:
                peer.sendall(frames)
                sent += len(frames)
        except OSError:
            pass
        return sent
    sent = await asyncio.to_thread(flood)
    return f"{sent >> 20} MB were taken from it"


@attack
async def a_thousand_choices(bed):
    # Another client waited 59 s for its first token.
    body = {"model": "default", "prompt": ["x"] * 8, "n": 128, "max_tokens": 64, "ignore_eos": True, "seed": 1}

    async def ask():
        try:
            return ends("choices", await post(bed.port, "/v1/completions", body, limit_s=200))
        except asyncio.TimeoutError:
            return "not done"
    many = [asyncio.create_task(ask()) for _ in range(4)]
    await asyncio.sleep(1)
    stream, began = streams.Stream({"model": "default", "prompt": "another", "max_tokens": 4, "stream": True}), time.monotonic()
    await asyncio.wait_for(stream.run(bed.port), 200)
    first_s = stream.times[0] - began if stream.times else 999
    for task in many:
        task.cancel()
    await asyncio.gather(*many, return_exceptions=True)
    assert stream.error is None, f"the other client's request: {stream.error}"
    assert first_s < 5, f"another client waited {first_s:.1f} s for its first token"
    return f"another client's first token after {first_s:.2f} s"


@attack
async def a_page_that_drains_workers(bed):
    # A web page from anywhere could empty and remove workers.
    said = []
    for path in ("/helix/nodes/w0/drain", "/helix/nodes/w0/remove"):
        for headers in ({"Origin": "http://evil.example", "Content-Type": "text/plain"},
                        {"Host": "evil.example", "Content-Type": "application/json"}):
            status, _, body = await post(bed.port, path, b"", headers)
            assert status in (401, 403, 415, 421), f"{path} with {headers}: {status} {body[:120]!r}"
            said.append(str(status))
    status, headers, _ = await exchange(bed.port, b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                        b"Origin: http://evil.example\r\nConnection: close\r\n\r\n")
    assert "access-control-allow-origin" not in headers, "any page may read /v1"
    return ", ".join(said)


async def serve_refuses(bed, model, limit_descriptors=None):
    """The exit status and the words of a coordinator that cannot start."""
    def limited():
        if limit_descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit_descriptors, limit_descriptors))
    process = await asyncio.create_subprocess_exec(
        bed.helix, "serve", "--model", str(model), "--listen", "127.0.0.1:0", stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, preexec_fn=limited)
    try:
        said = (await asyncio.wait_for(process.communicate(), 20))[0].decode(errors="replace")
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
        raise AssertionError(f"serve --model {model} neither started nor refused") from None
    return process.returncode, said


@attack
async def models_that_are_no_files(bed):
    # A FIFO hung, /dev/zero filled the memory.
    fifo = bed.folder / "fifo.gguf"
    os.mkfifo(fifo)
    said = []
    try:
        for path in (fifo, "/dev/zero", "/dev/null", bed.folder):
            status, words = await serve_refuses(bed, path)
            assert status == 1 and str(path) in words, f"{path}: exit status {status}, {words[-300:]!r}"
            said.append(words.strip().splitlines()[-1])
    finally:
        fifo.unlink()
    return said[0]


@attack
async def sixteen_descriptors(bed):
    # Ended by a CHECK.
    status, words = await serve_refuses(bed, bed.model, limit_descriptors=16)
    assert status == 1, f"exit status {status}, {words[-300:]!r}"
    assert "ulimit -n" in words, f"it does not say why: {words[-300:]!r}"
    return words.strip().splitlines()[-1]


@attack
async def model_file_that_shrinks(bed):
    # SIGBUS ended the process that had the file mapped.
    whole = bed.model.read_bytes()
    try:
        os.truncate(bed.model, len(whole) // 3)
        bed.run("late", ["worker", "--join", f"127.0.0.1:{bed.port}", "--name", "late", "--host-id", "late", "--threads",
                         "1", "--memory", "256MB", "--cache", str(bed.folder / "cache-late")])
        # Where the planner has put half of the layers on each worker, w1 must load the other half before it serves.
        bed.may_pause = True
        status, _, body = await post(bed.port, "/helix/nodes/w0/drain", b"")
        assert status in (200, 202), f"drain: {status} {body!r}"
        await asyncio.sleep(8)
        await bed.ready(30)
        await asyncio.sleep(0.5)  # An answer from before may be under way.
        bed.may_pause = False
        await post(bed.port, "/helix/nodes/w0/undrain", b"")
    finally:
        bed.model.write_bytes(whole)
    lines = [line for line in bed.log("coordinator").splitlines() if "model" in line.lower() or ".gguf" in line]
    return lines[-1][-120:] if lines else "nothing was read"


def chat(text, **more):
    return {"model": "default", "messages": [{"role": "user", "content": text}], "max_tokens": 1, **more}


def of_schema(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
