"""Ways to go on answering for ever without a silence, for `raw_server`."""

import itertools

from tests.support.raw_server import HEAD


def endless_head(server, connection):
    server.drip(connection, itertools.chain([b"HTTP/1.1 200 OK\r\nX: "], itertools.repeat(b"x")))


def endless_interim(server, connection):
    server.drip(connection, itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n"))


def endless_body(server, connection):
    server.drip(connection, itertools.chain([HEAD + b"\r\n"], itertools.repeat(b" ")))


def body_of_closed_connection(server, connection):
    server.drip(connection, itertools.chain([b"HTTP/1.0 200 OK\r\n\r\n"], itertools.repeat(b" ")))


def body_of_known_length(server, connection):
    server.drip(connection, itertools.chain([HEAD + b"Content-Length: 1000000\r\n\r\n"], itertools.repeat(b" ")))


def endless_chunks(server, connection):
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    server.drip(connection, itertools.chain([head], itertools.repeat(b"1\r\nx\r\n")))


def endless_trailers(server, connection):
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    server.drip(connection, itertools.chain([head], itertools.repeat(b"X: y\r\n")))


DRIPPING = [
    endless_head,
    endless_interim,
    endless_body,
    body_of_closed_connection,
    body_of_known_length,
    endless_chunks,
    endless_trailers,
]
