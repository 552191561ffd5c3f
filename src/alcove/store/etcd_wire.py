"""The part of etcd's v3 protocol that the store uses, as a table from which protobuf classes are created.

Names and numbers are the protocol's; fields that are neither sent nor read are omitted, which protobuf
allows.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

_PACKAGE = "alcove.etcd"

_MESSAGES = {
    "ResponseHeader": "revision:3:int64",
    "KeyValue": "key:1:bytes create_revision:2:int64 mod_revision:3:int64 value:5:bytes",
    "Event": "type:1:int32 kv:2:KeyValue prev_kv:3:KeyValue",
    "RangeRequest": "key:1:bytes range_end:2:bytes limit:3:int64 revision:4:int64"
    " serializable:7:bool keys_only:8:bool count_only:9:bool",
    "RangeResponse": "header:1:ResponseHeader kvs:2:*KeyValue more:3:bool",
    "PutRequest": "key:1:bytes value:2:bytes",
    "DeleteRangeRequest": "key:1:bytes range_end:2:bytes",
    "DeleteRangeResponse": "deleted:2:int64",
    "RequestOp": "request_range:1:RangeRequest request_put:2:PutRequest"
    " request_delete_range:3:DeleteRangeRequest request_txn:4:TxnRequest",
    "ResponseOp": "response_range:1:RangeResponse response_delete_range:3:DeleteRangeResponse"
    " response_txn:4:TxnResponse",
    "Compare": "result:1:int32 target:2:int32 key:3:bytes mod_revision:6:int64",
    "TxnRequest": "compare:1:*Compare success:2:*RequestOp failure:3:*RequestOp",
    "TxnResponse": "header:1:ResponseHeader succeeded:2:bool responses:3:*ResponseOp",
    "CompactionRequest": "revision:1:int64 physical:2:bool",
    "CompactionResponse": "header:1:ResponseHeader",
    "WatchCreateRequest": "key:1:bytes range_end:2:bytes start_revision:3:int64"
    " progress_notify:4:bool prev_kv:6:bool",
    "WatchRequest": "create_request:1:WatchCreateRequest",
    "WatchResponse": "header:1:ResponseHeader created:3:bool canceled:4:bool compact_revision:5:int64"
    " cancel_reason:6:string events:11:*Event",
}

_SCALARS = {
    name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in ("bool", "bytes", "int32", "int64", "string")
}

EQUAL, GREATER = 0, 1
"""`Compare.result`."""
MOD_REVISION = 2
"""`Compare.target`."""
PUT, DELETE = 0, 1
"""`Event.type`."""

Message = Any
"""Classes are created at run time, so type checkers do not know their fields."""


def _field(text: str) -> Any:
    name, number, kind = text.split(":")
    field = descriptor_pb2.FieldDescriptorProto(name=name, number=int(number))
    repeated = kind.startswith("*")
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    kind = kind.removeprefix("*")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    return field


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="alcove/etcd.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        message.field.extend(map(_field, fields.split()))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


_messages = _classes()

Compare = _messages["Compare"]
CompactionRequest = _messages["CompactionRequest"]
CompactionResponse = _messages["CompactionResponse"]
DeleteRangeRequest = _messages["DeleteRangeRequest"]
PutRequest = _messages["PutRequest"]
RangeRequest = _messages["RangeRequest"]
RangeResponse = _messages["RangeResponse"]
TxnRequest = _messages["TxnRequest"]
TxnResponse = _messages["TxnResponse"]
WatchCreateRequest = _messages["WatchCreateRequest"]
WatchRequest = _messages["WatchRequest"]
WatchResponse = _messages["WatchResponse"]
