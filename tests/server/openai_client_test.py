#!/usr/bin/env python3
"""Drives a batch server with OpenAI's own client, unchanged.

    openai_client_test.py SERVER_PROGRAM              a fake_server: started, killed and restarted here
    openai_client_test.py --base-url URL --model ID   one that runs already (no kills then)

Exit status 0: all is well; 77: the openai package isn't there.
"""
import argparse
import asyncio
import collections
import io
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

try:
    import openai
except ImportError:
    print("the Python package openai is not installed")
    sys.exit(77)


def request(i, model, **extra):
    body = {"model": model, "messages": [{"role": "user", "content": f"Say {i}."}],
            "max_tokens": 8, "temperature": 0, **extra}
    return {"custom_id": f"line-{i}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def jsonl(requests):
    return "".join(json.dumps(one) + "\n" for one in requests).encode()


def wait_for(client, batch, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        batch = client.batches.retrieve(batch.id)
        if batch.status in ("completed", "failed", "expired", "cancelled"):
            return batch
        time.sleep(0.05)
    raise AssertionError(f"batch {batch.id} is still {batch.status} after {seconds} s")


def answers(client, file_id):
    lines = [json.loads(line) for line in client.files.content(file_id).text.splitlines()]
    counts = collections.Counter(line["custom_id"] for line in lines)
    assert not [name for name, count in counts.items() if count > 1], "answered twice"
    return {line["custom_id"]: line for line in lines}


def create(client, requests, **extra):
    upload = client.files.create(file=("in.jsonl", jsonl(requests)), purpose="batch")
    return client.batches.create(input_file_id=upload.id, endpoint="/v1/chat/completions",
                                 completion_window="24h", **extra)


def check_models(client, model):
    assert [one.id for one in client.models.list()] == [model]
    assert client.models.retrieve(model).object == "model"


def check_uploads(client):
    data = jsonl([request(1, "m")])
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "prompts é.jsonl"
        path.write_bytes(data)
        from_path = client.files.create(file=path, purpose="batch")
        assert from_path.filename == path.name, from_path.filename
    from_memory = client.files.create(file=io.BytesIO(data), purpose="batch")
    large = b"x" * (5 << 20) + b"\r\n--\r\n"
    from_bytes = client.files.create(file=("big.bin", large), purpose="user_data")
    assert from_memory.filename == "upload" and from_memory.bytes == len(data)
    assert client.files.content(from_bytes.id).read() == large
    assert client.files.retrieve(from_path.id).status == "processed"
    assert client.files.wait_for_processing(from_path.id).id == from_path.id
    listed = [one.id for one in client.files.list(limit=2)]  # follows the pages
    assert {from_path.id, from_memory.id, from_bytes.id} <= set(listed)
    assert listed[::-1] == [one.id for one in client.files.list(limit=3, order="asc")]
    others = [one.id for one in client.files.list(purpose="user_data")]
    assert from_bytes.id in others and from_path.id not in others
    with client.files.with_streaming_response.content(from_bytes.id) as response:
        assert b"".join(response.iter_bytes()) == large


def check_batch(client, model):
    requests = [request(i, model) for i in range(40)]
    requests.append(request(40, model, temperature=7))
    batch = create(client, requests, metadata={"for": "a test"})
    assert batch.status == "validating" and batch.object == "batch"
    batch = wait_for(client, batch)
    assert batch.status == "completed", batch
    assert batch.metadata == {"for": "a test"}
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (41, 40, 1), counts
    good = answers(client, batch.output_file_id)
    assert set(good) == {f"line-{i}" for i in range(40)}
    for line in good.values():
        completion = openai.types.chat.ChatCompletion.model_validate(line["response"]["body"])
        assert completion.choices[0].message.role == "assistant"
        assert completion.choices[0].finish_reason in ("stop", "length")
        assert completion.usage.completion_tokens <= 8
    bad = answers(client, batch.error_file_id)["line-40"]
    assert bad["response"]["status_code"] == 400 and bad["error"] is None
    assert bad["response"]["body"]["error"]["param"] == "temperature"
    assert batch.id in [one.id for one in client.batches.list(limit=1)]


def check_failed_batch(client, model):
    batch = wait_for(client, create(client, [request(1, model), request(1, model),
                                             request(2, "another")]))
    assert batch.status == "failed" and batch.output_file_id is None
    found = [(one.line, one.code) for one in batch.errors.data]
    assert found == [(2, "duplicate_custom_id"), (3, "model_not_found")], found


MESSAGES = [{"role": "user", "content": "Say something."}]


def check_completions(client, model):
    asked = dict(model=model, messages=MESSAGES, max_tokens=8, seed=7, n=2)
    whole = client.chat.completions.create(**asked)
    assert [choice.index for choice in whole.choices] == [0, 1]
    assert whole.choices[0].message.role == "assistant"
    assert whole.usage.completion_tokens <= 16
    texts, ends, usage = ["", ""], {}, None
    for chunk in client.chat.completions.create(**asked, stream=True,
                                                stream_options={"include_usage": True}):
        assert chunk.object == "chat.completion.chunk"
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            ends[choice.index] = choice.finish_reason or ends.get(choice.index)
    assert texts == [choice.message.content for choice in whole.choices], texts
    assert ends == {0: whole.choices[0].finish_reason, 1: whole.choices[1].finish_reason}, ends
    assert usage == whole.usage, usage

    asked = dict(model=model, prompt=["One", "Two"], max_tokens=5, seed=7, logprobs=1)
    whole = client.completions.create(**asked)
    assert [choice.index for choice in whole.choices] == [0, 1]
    texts, tokens = ["", ""], ["", ""]
    for chunk in client.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            tokens[choice.index] += "".join(choice.logprobs.tokens if choice.logprobs else [])
    assert texts == [choice.text for choice in whole.choices], texts
    assert tokens == ["".join(choice.logprobs.tokens) for choice in whole.choices], tokens

    entries = client.chat.completions.create(
        model=model, messages=MESSAGES, max_tokens=3, logprobs=True,
        top_logprobs=2).choices[0].logprobs.content
    assert len(entries) == 3 and all(entry.logprob <= 0 for entry in entries), entries

    with client.chat.completions.create(model=model, messages=MESSAGES, stream=True) as stream:
        assert next(iter(stream)).choices[0].delta.role == "assistant"
    # Left in the middle: the next one is answered all the same.
    assert client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=2).choices


def check_many_at_once(client, model):
    async def ask():
        async with openai.AsyncOpenAI(base_url=client.base_url, api_key=client.api_key,
                                      max_retries=0) as many:
            return await asyncio.gather(*(
                many.chat.completions.create(model=model, messages=MESSAGES, max_tokens=4, seed=i)
                for i in range(64)))

    assert {one.object for one in asyncio.run(ask())} == {"chat.completion"}


def check_files_are_deleted(client):
    upload = client.files.create(file=("in.jsonl", b"x"), purpose="batch")
    assert client.files.delete(upload.id).deleted
    try:
        client.files.content(upload.id)
    except openai.NotFoundError:
        return
    raise AssertionError("a deleted file has content")


def check_cancel(client, model):
    batch = create(client, [request(i, model) for i in range(2000)])
    while batch.request_counts.completed < 10:
        batch = client.batches.retrieve(batch.id)
    assert client.batches.cancel(batch.id).status == "cancelling"
    batch = wait_for(client, batch)
    assert batch.status == "cancelled" and batch.cancelled_at >= batch.cancelling_at, batch
    good, rest = answers(client, batch.output_file_id), answers(client, batch.error_file_id)
    assert set(good) | set(rest) == {f"line-{i}" for i in range(2000)} and not set(good) & set(rest)
    assert {line["error"]["code"] for line in rest.values()} == {"batch_cancelled"}
    assert batch.request_counts.completed == len(good) and batch.request_counts.failed == 0
    assert client.batches.cancel(batch.id).status == "cancelled"  # again: nothing changes


def check_errors(client, model):
    def refused(kind, call, **wanted):
        try:
            call()
        except kind as error:
            for name, value in wanted.items():
                assert getattr(error, name) == value, (name, getattr(error, name))
            assert error.request_id.startswith("req_")
            return
        raise AssertionError(f"{kind.__name__} was expected")

    refused(openai.NotFoundError, lambda: client.files.retrieve("file-none"), param="id")
    refused(openai.NotFoundError, lambda: client.batches.retrieve("batch_none"))
    refused(openai.NotFoundError, lambda: client.models.retrieve("none"), code="model_not_found")
    refused(openai.NotFoundError,
            lambda: client.chat.completions.create(model="none", messages=MESSAGES),
            code="model_not_found", param="model")
    refused(openai.BadRequestError,
            lambda: client.chat.completions.create(model=model, messages=MESSAGES, stream=True,
                                                   response_format={"type": "json_object"}),
            param="response_format")
    refused(openai.BadRequestError,
            lambda: client.batches.create(input_file_id="file-1", endpoint="/v1/nothing",
                                          completion_window="24h"),
            param="endpoint", code="invalid_value", type="invalid_request_error")


class Program:
    """The server program, on one data directory over its lives."""

    def __init__(self, path, directory):
        self.command = [path, directory, "0", "10"]  # any port; 5 answers in 10 ms
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        port = self.process.stdout.readline().split()[-1]
        self.command[2] = port  # of its later lives, too
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none",
                                    max_retries=0)

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait(timeout=60)


def check_kills(program, model):
    batch = create(program.client, [request(i, model) for i in range(400)])
    for kill in range(3):
        now = batch
        while now.request_counts.completed <= 60 * kill:  # further than at the last kill
            now = program.client.batches.retrieve(batch.id)
            time.sleep(0.01)
        assert now.status == "in_progress", now
        program.end(signal.SIGKILL)
        program.start()
    batch = wait_for(program.client, batch)
    assert batch.request_counts.completed == 400, batch
    assert len(answers(program.client, batch.output_file_id)) == 400


def check_retries(program, model):
    """Clients that try again find a server that was away, and don't try where it is of no use."""
    batch = wait_for(program.client, create(program.client, [request(1, model)]))
    patient = program.client.with_options(max_retries=5)
    start = time.monotonic()
    try:
        patient.batches.cancel(batch.id)
        raise AssertionError("a completed batch was cancelled")
    except openai.ConflictError as error:
        assert "Cannot cancel a batch with status 'completed'." in str(error), error
    assert time.monotonic() - start < 0.35, "tried again at a 409"
    assert program.end(signal.SIGTERM) == 0
    later = threading.Timer(1, program.start)
    later.start()
    assert patient.batches.retrieve(batch.id) == batch
    later.join()


def check_all(client, model):
    check_models(client, model)
    check_completions(client, model)
    check_many_at_once(client, model)
    check_files_are_deleted(client)
    check_uploads(client)
    check_batch(client, model)
    check_failed_batch(client, model)
    check_errors(client, model)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--base-url")
    parser.add_argument("--model", default="fake/model")
    options = parser.parse_args()
    if options.base_url:
        check_all(openai.OpenAI(base_url=options.base_url, api_key="none", max_retries=0),
                  options.model)
    elif options.program:
        with tempfile.TemporaryDirectory() as directory:
            program = Program(options.program, directory)
            try:
                check_all(program.client, options.model)
                check_cancel(program.client, options.model)
                check_kills(program, options.model)
                check_retries(program, options.model)
                assert program.end(signal.SIGTERM) == 0
            finally:
                program.process.kill()
    else:
        parser.error("a server program or --base-url is needed")
    print(f"openai {openai.__version__}: all is well")


if __name__ == "__main__":
    main()
