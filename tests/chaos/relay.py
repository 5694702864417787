"""TCP relays between Helix processes that know where a message ends and of which kind it is.

ZMTP 3 without encryption: a greeting of 64 bytes, then frames of flags, length and body. A message's first frame is an
Envelope of src/wire/helix.proto.
"""
import asyncio
import json
import pathlib
import re

PROTO = pathlib.Path(__file__).resolve().parents[2] / "src" / "wire" / "helix.proto"
MORE, LONG, COMMAND = 1, 2, 4


def message_kinds():
    body = PROTO.read_text(encoding="utf-8").split("message Envelope", 1)[1]
    return {int(number): kind for kind, number in re.findall(r"(\w+) (?:\w+) = (\d+);", body)}


KINDS = message_kinds()


def number(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """The (number, value) pairs of a protobuf message: ints for varints, bytes for what has a length."""
    at = 0
    while at < len(data):
        tag, at = number(data, at)
        if tag & 7 == 0:
            value, at = number(data, at)
        elif tag & 7 == 2:
            size, at = number(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = 8 if tag & 7 == 1 else 4
            value, at = data[at:at + size], at + size
        yield tag >> 3, value


def first_key(body):
    """{field: value} of the SequenceKey that leads a message: the first field's first field, and so on, down to numbers."""
    while body:
        _, value = next(fields(body))
        if isinstance(value, int):
            return dict(fields(body))
        body = value
    return {}


class Message:
    """One on its way: what it is, and the names of both ends."""

    def __init__(self, header, sender, receiver):
        self.sender, self.receiver = sender, receiver
        field, self.body = next(fields(header), (0, b""))
        self.kind = KINDS.get(field, "unknown")

    def attempt(self):
        """Of the sequences that StageInputs, TokensProduced or FreeSequences are about."""
        return first_key(self.body).get(2, 0)


class Relay:
    """decide(Message) is awaited for every message; it answers how many times to deliver it."""

    def __init__(self, decide):
        self.decide = decide
        self.servers = []
        self.tasks = set()

    async def between(self, client, server, port, listen=0):
        """A relay in front of port, of the process named server. Its own port."""
        def serve(reader, writer):  # a task of our own: one of asyncio's complains when it is cancelled
            task = asyncio.create_task(self.connection(reader, writer, client, server, port))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        self.servers.append(await asyncio.start_server(serve, "127.0.0.1", listen))
        return self.servers[-1].sockets[0].getsockname()[1]

    async def join_page(self, cluster_port):
        """What a worker that joins asks for over HTTP; it is sent to cluster_port. The page's port."""
        page = json.dumps({"cluster_port": cluster_port, "public_key": ""}).encode()

        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
                         + str(len(page)).encode() + b"\r\n\r\n" + page)
            await writer.drain()
            writer.close()
        self.servers.append(await asyncio.start_server(answer, "127.0.0.1", 0))
        return self.servers[-1].sockets[0].getsockname()[1]

    async def connection(self, reader, writer, client, server, port):
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        ways = [asyncio.create_task(self.pump(reader, up_writer, client, server)),
                asyncio.create_task(self.pump(up_reader, writer, server, client))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            writer.close()
            up_writer.close()

    async def pump(self, reader, writer, sender, receiver):
        try:
            for _ in range(64):  # its parts wait for each other
                writer.write(await reader.readexactly(1))
            frames, header = b"", None
            while True:
                head = await reader.readexactly(1)
                size = await reader.readexactly(8 if head[0] & LONG else 1)
                body = await reader.readexactly(int.from_bytes(size, "big"))
                if writer.is_closing():
                    return
                if head[0] & COMMAND:
                    writer.write(head + size + body)
                    continue
                header = body if header is None else header
                frames += head + size + body
                if head[0] & MORE:
                    continue
                for _ in range(await self.decide(Message(header, sender, receiver))):
                    writer.write(frames)
                await writer.drain()
                frames, header = b"", None
        except (asyncio.IncompleteReadError, OSError):
            pass
