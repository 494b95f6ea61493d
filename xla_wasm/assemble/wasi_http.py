"""A server of `wasi:http` as a component: two core modules, one of the memory and all data, and one of the code.

Functions that a component imports are lowered with the memory that they write to, which must be there before the module
that calls them. The memory has a module of its own for this, and its data with it: engines copy on write what a module
puts into a memory of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..wasm.component import (
    Component,
    InstanceType,
    borrow,
    function,
    list_of,
    option,
    own,
    record,
    result,
    tuple_of,
    variant,
)

HANDLER = "wasi:http/incoming-handler@0.2.0"
"""The interface that the component exports."""
HANDLE = "handle"
"""The function of the core module that serves a request."""
REALLOC = "cabi_realloc"
"""The function of the memory's module that gives room for what imported functions return."""
MEMORY = ("model", "memory")
"""The names by which the module of the code imports the memory."""
CODE = ""
"""The module from which that one imports the host's functions: no bytes, for it stands before each of them."""

_ERROR, _STREAMS, _TYPES = "wasi:io/error@0.2.0", "wasi:io/streams@0.2.0", "wasi:http/types@0.2.0"
INTERFACES = (_TYPES, _STREAMS, _ERROR)
"""The component's imports."""
_DROP = "[resource-drop]"
_RETURN_LISTS = {
    "[method]incoming-request.method",
    "[method]incoming-request.path-with-query",
    "[method]fields.get",
    "[method]input-stream.blocking-read",
    "[static]outgoing-body.finish",
}
"""The functions whose results hold lists or strings, also those of errors."""
_METHODS = "get head post put delete connect options trace patch".split()
_PLAIN_ERRORS = """
DNS-timeout DNS-error destination-not-found destination-unavailable destination-IP-prohibited destination-IP-unroutable
connection-refused connection-terminated connection-timeout connection-read-timeout connection-write-timeout
connection-limit-reached TLS-protocol-error TLS-certificate-error TLS-alert-received HTTP-request-denied
HTTP-request-length-required HTTP-request-body-size HTTP-request-method-invalid HTTP-request-URI-invalid
HTTP-request-URI-too-long HTTP-request-header-section-size HTTP-request-header-size HTTP-request-trailer-section-size
HTTP-request-trailer-size HTTP-response-incomplete HTTP-response-header-section-size HTTP-response-header-size
HTTP-response-body-size HTTP-response-trailer-section-size HTTP-response-trailer-size HTTP-response-transfer-coding
HTTP-response-content-coding HTTP-response-timeout HTTP-upgrade-failed HTTP-protocol-error loop-detected
configuration-error internal-error
""".split()


def _streams(error: int, used: Collection[str]) -> InstanceType:
    """The part of wasi:io/streams with the functions that are used."""
    t = InstanceType()
    failed = t.type(own(t.outer(error)))
    reads, writes = t.resource("input-stream"), t.resource("output-stream")
    stream_error = t.name("stream-error", t.type(variant({"last-operation-failed": failed, "closed": None})))
    content = t.type(list_of("u8"))
    read, written = t.type(result(content, stream_error)), t.type(result(None, stream_error))
    functions = {
        "[method]input-stream.blocking-read": function({"self": t.type(borrow(reads)), "len": "u64"}, read),
        "[method]output-stream.blocking-write-and-flush": function(
            {"self": t.type(borrow(writes)), "contents": content}, written
        ),
    }
    for name, type_ in functions.items():
        if name in used:
            t.function(name, type_)
    return t


def _error_code(t: InstanceType) -> int:
    text, short, byte, word, wide = (t.type(option(x)) for x in ("string", "u16", "u8", "u32", "u64"))
    dns = t.name("DNS-error-payload", t.type(record({"rcode": text, "info-code": short})))
    alert = t.name("TLS-alert-received-payload", t.type(record({"alert-id": byte, "alert-message": text})))
    size = t.name("field-size-payload", t.type(record({"field-name": text, "field-size": word})))
    values = {
        "DNS-error": dns,
        "TLS-alert-received": alert,
        "HTTP-request-body-size": wide,
        "HTTP-request-header-section-size": word,
        "HTTP-request-header-size": t.type(option(size)),
        "HTTP-request-trailer-section-size": word,
        "HTTP-request-trailer-size": size,
        "HTTP-response-header-section-size": word,
        "HTTP-response-header-size": size,
        "HTTP-response-body-size": wide,
        "HTTP-response-trailer-section-size": word,
        "HTTP-response-trailer-size": size,
        "HTTP-response-transfer-coding": text,
        "HTTP-response-content-coding": text,
        "internal-error": text,
    }
    return t.name("error-code", t.type(variant({name: values.get(name) for name in _PLAIN_ERRORS})))


def _http(input_stream: int, output_stream: int, used: Collection[str]) -> InstanceType:
    """The part of wasi:http/types with the functions that are used."""
    t = InstanceType()
    reads, writes = t.type(own(t.outer(input_stream))), t.type(own(t.outer(output_stream)))
    fields, request, incoming, response, outgoing, outparam = (
        t.resource(name)
        for name in (
            "fields",
            "incoming-request",
            "incoming-body",
            "outgoing-response",
            "outgoing-body",
            "response-outparam",
        )
    )
    owned = {r: t.type(own(r)) for r in (fields, incoming, response, outgoing, outparam)}
    lent = {r: t.type(borrow(r)) for r in (fields, request, incoming, response, outgoing)}
    method = t.name("method", t.type(variant(dict.fromkeys(_METHODS) | {"other": "string"})))
    error = _error_code(t)
    header_error = t.name("header-error", t.type(variant(dict.fromkeys(("invalid-syntax", "forbidden", "immutable")))))
    content, made = t.type(list_of("u8")), t.type(result(owned[fields], header_error))
    functions = {
        "[method]incoming-request.method": function({"self": lent[request]}, method),
        "[method]incoming-request.path-with-query": function({"self": lent[request]}, t.type(option("string"))),
        "[method]incoming-request.headers": function({"self": lent[request]}, owned[fields]),
        "[method]incoming-request.consume": function({"self": lent[request]}, t.type(result(owned[incoming]))),
        "[method]incoming-body.stream": function({"self": lent[incoming]}, t.type(result(reads))),
        "[static]fields.from-list": function({"entries": t.type(list_of(t.type(tuple_of("string", content))))}, made),
        "[method]fields.get": function({"self": lent[fields], "name": "string"}, t.type(list_of(content))),
        "[constructor]outgoing-response": function({"headers": owned[fields]}, owned[response]),
        "[method]outgoing-response.set-status-code": function(
            {"self": lent[response], "status-code": "u16"}, t.type(result())
        ),
        "[method]outgoing-response.body": function({"self": lent[response]}, t.type(result(owned[outgoing]))),
        "[method]outgoing-body.write": function({"self": lent[outgoing]}, t.type(result(writes))),
        "[static]outgoing-body.finish": function(
            {"this": owned[outgoing], "trailers": t.type(option(owned[fields]))}, t.type(result(None, error))
        ),
        "[static]response-outparam.set": function(
            {"param": owned[outparam], "response": t.type(result(owned[response], error))}
        ),
    }
    for name, type_ in functions.items():
        if name in used:
            t.function(name, type_)
    return t


def server(code: bytes, memory: bytes, imports: Sequence[tuple[str, str]]) -> bytes:
    """The component of two core modules: `memory` exports a memory and `REALLOC`, `code` imports it and exports
    `HANDLE`. What it imports besides are these functions of interfaces, as `CODE` and their numbers: a core module's
    names need not be those of the interfaces."""
    used = {name for _, name in imports}
    c = Component()
    errors = InstanceType()
    errors.resource("error")
    error = c.exported_type(c.import_instance(_ERROR, errors), "error")
    streams = c.import_instance(_STREAMS, _streams(error, used))
    resources = {"error": error, **{name: c.exported_type(streams, name) for name in ("input-stream", "output-stream")}}
    http = c.import_instance(_TYPES, _http(resources["input-stream"], resources["output-stream"], used))
    resources |= {
        name: c.exported_type(http, name)
        for name in ("incoming-request", "response-outparam", "incoming-body", "fields")
    }
    request, out = (c.type(own(resources[name])) for name in ("incoming-request", "response-outparam"))
    handle = c.type(function({"request": request, "response-out": out}))
    place = c.instantiate(c.module(memory), {})
    memory_index, realloc = c.core_memory(place, MEMORY[1]), c.core_function(place, REALLOC)
    instances = {_TYPES: http, _STREAMS: streams}
    # All of one sort together: each change of the sort begins a section.
    functions = [
        None if name.startswith(_DROP) else c.exported_function(instances[interface], name)
        for interface, name in imports
    ]
    lowered = [
        c.drop(resources[name.removeprefix(_DROP)])
        if index is None
        else c.lower(index, memory_index, realloc if name in _RETURN_LISTS else None)
        for index, (_, name) in zip(functions, imports)
    ]
    arguments = {CODE: c.core_instance([(str(i), index) for i, index in enumerate(lowered)]), MEMORY[0]: place}
    main = c.instantiate(c.module(code), arguments)
    c.export_instance(HANDLER, [("handle", c.lift(c.core_function(main, HANDLE), handle))])
    return c.encode()
