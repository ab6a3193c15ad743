"""The server as a process: answers, limits, and how it ends."""

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import time
import unittest

from server.tests.support import EXAMPLES, ServerProcess

LONG = 400
"""Tokens of a request that takes a while: at one to three ms each."""


def run(*arguments):
    command = [sys.executable, "-m", "server", "--simulated-gpu=off", "--port=0", *arguments]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Answers(unittest.TestCase):
    server: ServerProcess

    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess("--capacity=64", "--max-body-bytes=1000")
        cls.addClassCleanup(cls.server.__exit__)

    def test_tokens_and_times(self):
        status, answer = self.server.generate("hello", 5)
        self.assertEqual((status, answer["prompt_tokens"], len(answer["tokens"])), (200, 5, 5))
        times = answer["token_times_ms"]
        self.assertEqual(times, sorted(times))
        self.assertEqual(times[0], answer["time_to_first_token_ms"])
        self.assertEqual(times[-1], answer["total_ms"])
        self.assertGreater(times[0], 0)

    def test_a_prompt_has_the_same_tokens_alone_and_among_others(self):
        prompts = ["a", "bb", "some longer prompt"] * 5
        expected = {prompt: self.server.generate(prompt, 9)[1]["tokens"] for prompt in prompts}
        with concurrent.futures.ThreadPoolExecutor(15) as pool:
            answers = pool.map(lambda prompt: self.server.generate(prompt, 9)[1]["tokens"], prompts)
        self.assertEqual(list(answers), [expected[prompt] for prompt in prompts])

    def test_a_stream_has_each_token_and_then_the_whole(self):
        connection = socket.create_connection(("127.0.0.1", self.server.about["port"]))
        with connection, connection.makefile("rb") as file:
            body = b'{"prompt": "hello", "max_tokens": 3, "stream": true}'
            head = f"POST /generate HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            lines = [line for line in file.read().splitlines() if line.startswith(b"{")]
        *tokens, whole = map(json.loads, lines)
        self.assertEqual([each["token"] for each in tokens], whole["tokens"])
        self.assertEqual(len(tokens), 3)

    def test_health_says_what_serves(self):
        status, answer = self.server.ask("GET", "/health")
        self.assertEqual((status, answer["status"], answer["backend"]), (200, "ok", "numpy"))
        self.assertEqual(answer["gpu"], "off")

    def test_what_is_no_good_request_is_refused_and_the_server_goes_on(self):
        for status, method, path, body in (
            (404, "GET", "/", None),
            (405, "GET", "/generate", None),
            (405, "POST", "/health", "{}"),
            (400, "POST", "/generate", "{"),
            (400, "POST", "/generate", {"prompt": "x" * 60, "max_tokens": 5}),
            (413, "POST", "/generate", {"prompt": "x" * 1000}),
        ):
            with self.subTest(path=path, body=body):
                found, answer = self.server.ask(method, path, body)
                self.assertEqual(found, status)
                self.assertIn("error", answer)
        self.assertEqual(self.server.generate()[0], 200)

    def test_many_requests_go_through_one_connection(self):
        address = ("127.0.0.1", self.server.about["port"])
        with socket.create_connection(address) as connection, connection.makefile("rb") as file:
            for _ in range(3):
                connection.sendall(b"GET /nowhere HTTP/1.1\r\n\r\n")
                self.assertIn(b" 404 ", file.readline())
                while (line := file.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                file.read(length)


class Limits(unittest.TestCase):
    def test_a_full_queue_is_answered_with_429(self):
        with ServerProcess("--max-queue=1") as server:
            thread, answers = server.in_background(LONG)
            server.wait_for_open_requests(1)
            status, answer = server.generate()
            self.assertEqual(status, 429, answer)
            thread.join()
            self.assertEqual(answers[0][0], 200)
            self.assertEqual(server.generate()[0], 200)

    def test_a_client_that_leaves_frees_its_place(self):
        with ServerProcess("--max-queue=1") as server:
            connection = socket.create_connection(("127.0.0.1", server.about["port"]))
            body = json.dumps({"prompt": "x", "max_tokens": LONG}).encode()
            head = f"POST /generate HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            server.wait_for_open_requests(1)
            began = time.monotonic()
            connection.close()
            server.wait_for_open_requests(0)
            metrics = self.tokens(server)
            self.assertLess(metrics, LONG, f"after {time.monotonic() - began} s")

    def tokens(self, server):
        connection = socket.create_connection(("127.0.0.1", server.about["port"]))
        with connection, connection.makefile("rb") as file:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            lines = file.read().decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("server_tokens"))


class Ends(unittest.TestCase):
    def test_a_signal_lets_open_requests_finish(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with ServerProcess() as server:
                thread, answers = server.in_background(LONG)
                server.wait_for_open_requests(1)
                self.assertEqual(server.end(number), (0, ""))
                thread.join()
                self.assertEqual((answers[0][0], len(answers[0][1]["tokens"])), (200, LONG))
                self.assertFalse(is_alive(server.about["engine_pid"]))

    def test_beyond_the_grace_open_requests_are_refused(self):
        with ServerProcess("--grace=0", "--slots=1") as server:
            running = [server.in_background(LONG) for _ in range(3)]
            server.wait_for_open_requests(3)
            self.assertEqual(server.end(), (0, ""))
            for thread, answers in running:
                thread.join()
                self.assertEqual(answers, [(503, {"error": "the server is ending"})])

    def test_a_signal_to_the_whole_group_is_as_good(self):
        # As Ctrl-C is, which reaches the engine too.
        with ServerProcess() as server:
            thread, answers = server.in_background(LONG)
            server.wait_for_open_requests(1)
            os.kill(server.about["engine_pid"], signal.SIGINT)
            self.assertEqual(server.end(signal.SIGINT), (0, ""))
            thread.join()
            self.assertEqual(answers[0][0], 200)

    def test_without_its_engine_the_server_says_so_and_ends(self):
        with ServerProcess() as server:
            thread, answers = server.in_background(LONG)
            server.wait_for_open_requests(1)
            os.kill(server.about["engine_pid"], signal.SIGKILL)
            _, stderr = server.process.communicate(timeout=30)
            self.assertEqual(server.process.returncode, 1)
            self.assertIn("the engine failed: it was ended by signal 9 (Killed)", stderr)
            thread.join()
            self.assertEqual(answers, [(503, {"error": "the engine ended unexpectedly"})])

    def test_an_engine_that_does_not_end_is_killed(self):
        with ServerProcess("--grace=0") as server:
            os.kill(server.about["engine_pid"], signal.SIGSTOP)
            status, stderr = server.end()
            self.assertEqual(status, 1)
            self.assertIn("did not end within 15 s, and was killed", stderr)
            self.assertFalse(is_alive(server.about["engine_pid"]))

    def test_the_engine_ends_without_its_server(self):
        with ServerProcess() as server:
            server.process.kill()
            deadline = time.monotonic() + 20
            while is_alive(server.about["engine_pid"]):
                self.assertLess(time.monotonic(), deadline, "the engine runs on")
                time.sleep(0.02)


class CommandLines(unittest.TestCase):
    def test_what_cannot_be_used_is_named_with_a_remedy(self):
        for words, *arguments in (
            ("--slots=0", "--slots=0"),
            ("--grace=nan", "--grace=nan"),
            ("--port=70000", "--port=70000"),
            ("gpt_9", "--model=gpt_9"),
            ("mixtral", "--model=moe_tiny", "--backend=numpy"),
            ("4096 positions", "--capacity=5000", "--backend=numpy"),
            ("no file", "--simulated-gpu=/nowhere.so", "--backend=numpy"),
            ("not the library", f"--simulated-gpu={__file__}", "--backend=numpy"),
            ("cannot be listened at", "--host=203.0.113.1", "--backend=numpy"),
            ("cannot be written", "--ready-file=/nowhere/x", "--backend=numpy"),
        ):
            with self.subTest(arguments):
                status, stderr = run(*arguments)
                self.assertEqual(status, 2, stderr)
                self.assertIn(words, stderr)
                self.assertEqual(len(stderr.splitlines()), 1, stderr)

    def test_a_port_that_is_taken_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            status, stderr = run("--backend=numpy", f"--port={port}")
        self.assertEqual(status, 2)
        self.assertIn(f"127.0.0.1:{port} cannot be listened at", stderr)


if __name__ == "__main__":
    unittest.main()
