#!/usr/bin/env python3
"""journal.py HOST:PORT POSITION_FILE TASK [STEP...] - appends a checkpoint per step, then follows the journal from where it last stood.

    tidemark serve --store work.db &            # ready listen=127.0.0.1:4319
    ./journal.py 127.0.0.1:4319 position.json draft outline text review

By gRPC (Debian: python3-grpcio, python3-protobuf, protobuf-compiler), because Tail is a stream. The messages are compiled from
the .proto files at the start; a real program would do that when it is built.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time

import grpc

PROTO = os.environ.get("TIDEMARK_PROTO", os.path.join(os.path.dirname(__file__), "../../proto"))
PROTOC = os.path.join(os.path.dirname(__file__), "../../tools/protoc")  # what Debian's protoc lacks beside it
CODE = grpc.StatusCode


def compile_messages(*names):
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["protoc", "-I", PROTO, "-I", PROTOC, "--python_out", directory, *names], check=True)
        sys.path.insert(0, directory)
        return [importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2") for name in names]


_, journal_pb2, work_pb2 = compile_messages("tidemark/options.proto", "tidemark/journal/v1/journal.proto", "tidemark/work/v1/work.proto")


class Stub:
    """The methods of a service, by its descriptor. Unary calls are repeated after passing trouble: those below may be."""

    def __init__(self, channel, service):
        self.channel, self.service = channel, service

    def __getattr__(self, name):
        method = self.service.methods_by_name[name]
        path = f"/{self.service.full_name}/{name}"
        encode, decode = lambda message: message.SerializeToString(), method.output_type._concrete_class.FromString
        if name == "Tail":
            return self.channel.unary_stream(path, encode, decode)
        call = self.channel.unary_unary(path, encode, decode)

        def repeated(request):
            for attempt in range(1, 9):
                try:
                    return call(request, timeout=30, wait_for_ready=True)
                except grpc.RpcError as error:
                    # UNKNOWN and a cut connection: it may have been done. The checkpoint's id makes asking again safe.
                    if error.code() not in (CODE.UNAVAILABLE, CODE.UNKNOWN, CODE.DEADLINE_EXCEEDED) or attempt == 8:
                        raise
                    time.sleep(0.05 * 2**attempt)

        return repeated


def append(journal, work, task, steps):
    try:
        work.CreateTask(work_pb2.CreateTaskRequest(task_id=task, title=task))
    except grpc.RpcError as error:
        if error.code() != CODE.ALREADY_EXISTS:
            raise
    for number, step in enumerate(steps, 1):
        checkpoint = journal_pb2.NewCheckpoint(
            checkpoint_id=f"{task}-{step}",  # once, however often it is sent
            task_id=task,
            type="manual_checkpoint",
            snapshot=json.dumps({"done": steps[:number]}),
            message=step,
        )
        numbers = journal.Append(journal_pb2.AppendRequest(checkpoints=[checkpoint])).checkpoints[0]
        print(f"{step}: {numbers.sequence_number} of {task}" + (" (was there)" if numbers.is_existing else ""))


def follow(journal, path):
    """Tells what happened since the stored position. Tail never ends by itself: here it does at the head of this moment."""
    position = {"global": 0, "event": 0}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            position = json.load(file)
    head = journal.Head(journal_pb2.Empty()).global_sequence
    if position["global"] >= head:
        return
    # A reader that has seen n has seen everything below n: this one number is the whole position (with that of other events).
    stream = journal.Tail(journal_pb2.TailRequest(global_sequence=position["global"], event_id=position["event"]))
    for event in stream:
        if event.event == "created":
            print(f"{event.checkpoint.global_sequence} {event.checkpoint.task_id} {event.checkpoint.message}")
            position["global"] = event.checkpoint.global_sequence
        else:
            print(f"{event.event} {event.first_global}..{event.last_global}")
            position["event"] = event.event_id
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(position, file)
        os.replace(path + ".new", path)  # behind the work: after a crash the last event comes again, and none is missed
        if position["global"] >= head:
            stream.cancel()
            return


def main(address, path, task, *steps):
    with grpc.insecure_channel(address) as channel:
        journal = Stub(channel, journal_pb2.DESCRIPTOR.services_by_name["JournalService"])
        append(journal, Stub(channel, work_pb2.DESCRIPTOR.services_by_name["WorkService"]), task, list(steps))
        if len(steps) > 1:
            request = journal_pb2.DiffRequest(a=f"{task}-{steps[0]}", b=f"{task}-{steps[-1]}")
            for difference in journal.Diff(request).differences:
                print(f"{difference.kind} {difference.path} {difference.after}")
        follow(journal, path)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
