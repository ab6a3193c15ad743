"""Bytes that are no good request, in whatever way, have an answer that says why."""

import asyncio
import json
import time
import unittest
from unittest import mock

from server import generate, http1
from server.http1 import HEAD_BYTES, HttpError, read_request

GOOD = b"POST /generate?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /next"


def read(data, ends=True, max_body_bytes=100):
    async def fed():
        reader = asyncio.StreamReader(limit=HEAD_BYTES)
        reader.feed_data(data)
        if ends:
            reader.feed_eof()
        return await read_request(reader, max_body_bytes)

    return asyncio.run(fed())


class Requests(unittest.TestCase):
    def test_method_path_and_body(self):
        request = read(GOOD)
        self.assertEqual((request.method, request.path, request.body),
                         ("POST", "/generate", b"abc"))  # fmt: skip
        self.assertTrue(request.keeps_alive)

    def test_who_asks_for_it_is_not_kept(self):
        for head in (b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n"):
            self.assertFalse(read(head).keeps_alive)

    def test_a_client_that_leaves_is_no_error(self):
        for data in (b"", b"GET / HT", GOOD[:-13]):
            self.assertIsNone(read(data))

    def test_what_is_no_request_is_refused(self):
        post = b"POST / HTTP/1.1\r\n"
        for status, data in (
            (400, b"hello\r\n\r\n"),
            (400, b"GET / SPDY/3\r\n\r\n"),
            (400, b"GET /a b HTTP/1.1\r\n\r\n"),
            (400, b"GET / HTTP/1.1\r\nno colon\r\n\r\n"),
            (400, b"GET / HTTP/1.1\r\n: empty\r\n\r\n"),
            (400, b"GET / HTTP/1.1\r\n folded: x\r\n\r\n"),
            (400, post + b"Content-Length: -1\r\n\r\n"),
            (400, post + b"Content-Length: 1_0\r\n\r\n"),
            (400, post + b"Content-Length: \xb2\r\n\r\n"),
            (411, post + b"\r\n"),
            (411, post + b"Transfer-Encoding: chunked\r\n\r\n"),
            (413, post + b"Content-Length: 101\r\n\r\n"),
            (413, post + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n"),
            (431, b"GET / HTTP/1.1\r\nx: " + b"y" * HEAD_BYTES + b"\r\n\r\n"),
            (431, b"z" * (HEAD_BYTES + 10)),
        ):
            with self.subTest(data[:60]):
                with self.assertRaises(HttpError) as caught:
                    read(data)
                self.assertEqual(caught.exception.status, status)
                self.assertTrue(caught.exception.closes)
                self.assertIn(status, http1.REASONS)

    def test_a_client_that_stops_sending_is_not_waited_for(self):
        began = time.monotonic()
        with mock.patch.object(http1, "READ_S", 0.01):
            self.assertIsNone(read(b"GET / HT", ends=False))
            with self.assertRaises(HttpError) as caught:
                read(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na", ends=False)
        self.assertEqual(caught.exception.status, 408)
        self.assertLess(time.monotonic() - began, 5)


class Bodies(unittest.TestCase):
    def test_a_text_becomes_its_bytes(self):
        asked = generate.read('{"prompt": "né", "max_tokens": 5}'.encode(), 100)
        self.assertEqual((asked.prompt, asked.max_tokens), ([110, 195, 169], 5))
        self.assertFalse(asked.streams)

    def test_prompt_and_tokens_may_fill_a_slot(self):
        body = json.dumps({"prompt": "x" * 60, "max_tokens": 40}).encode()
        self.assertEqual(generate.read(body, 100).max_tokens, 40)
        with self.assertRaisesRegex(HttpError, "100 positions"):
            generate.read(body.replace(b"40", b"41"), 100)

    def test_what_cannot_be_served_is_named(self):
        for words, body in (
            ("no JSON document", b"\xff\xfe\x00"),
            ("no JSON document", b"{"),
            ("no JSON document", b"[" * 100_000),
            ("no JSON object", b'"prompt"'),
            ("prompt", b"{}"),
            ("prompt", b'{"prompt": ""}'),
            ("prompt", b'{"prompt": [1]}'),
            ("max_tokens", b'{"prompt": "a", "max_tokens": 0}'),
            ("max_tokens", b'{"prompt": "a", "max_tokens": true}'),
            ("max_tokens", b'{"prompt": "a", "max_tokens": 1.5}'),
            ("max_tokens", b'{"prompt": "a", "max_tokens": 1' + b"0" * 4000 + b"}"),
            ("stream", b'{"prompt": "a", "stream": 1}'),
            ("temperature", b'{"prompt": "a", "temperature": 1}'),
        ):
            with self.subTest(body[:40]):
                with self.assertRaises(HttpError) as caught:
                    generate.read(body, 100)
                self.assertEqual(caught.exception.status, 400)
                self.assertIn(words, caught.exception.reason)
                self.assertLess(len(caught.exception.reason), 300)

    def test_half_of_a_surrogate_is_no_error(self):
        self.assertEqual(generate.read(b'{"prompt": "\\ud800"}', 100).prompt, [ord("?")])


if __name__ == "__main__":
    unittest.main()
