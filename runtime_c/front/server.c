// A server of wasi:http: POST / runs the model on the arrays in its body, and what the client accepts decides the form of the answer.
#include "front.h"

#define HTTP(name) IMPORT("wasi:http/types@0.2.0", name)
#define IO(name) IMPORT("wasi:io/streams@0.2.0", name)

// What an imported function leaves: a tag in the first byte, and behind it a handle, or an address and a size.
typedef struct {
  uint8_t tag;
  uint32_t a, b, c;
} answer;
typedef struct {
  const char *text;
  uint32_t size;
} string;
static answer got; // read before anything else is called
HTTP("[method]incoming-request.method") void request_method(int request, answer *method);
HTTP("[method]incoming-request.path-with-query") void request_path(int request, answer *path);
HTTP("[method]incoming-request.headers") int request_headers(int request);
HTTP("[method]incoming-request.consume") void request_consume(int request, answer *body);
HTTP("[method]incoming-body.stream") void body_stream(int body, answer *stream);
HTTP("[static]fields.from-list") void fields_of(string (*entries)[2], uint32_t count, answer *fields);
HTTP("[method]fields.get") void fields_get(int fields, const char *name, uint32_t size, string *list);
HTTP("[constructor]outgoing-response") int response_new(int headers);
HTTP("[method]outgoing-response.set-status-code") int response_status(int response, int code);
HTTP("[method]outgoing-response.body") void response_body(int response, answer *body);
HTTP("[method]outgoing-body.write") void body_write(int body, answer *stream);
HTTP("[static]outgoing-body.finish") void body_finish(int body, int has_trailers, int trailers, uint64_t done[8]);
HTTP("[static]response-outparam.set") void respond(int out, int failed, int response, int, uint64_t, int, int, int, int);
HTTP("[resource-drop]incoming-request") void request_drop(int);
HTTP("[resource-drop]incoming-body") void incoming_drop(int);
HTTP("[resource-drop]fields") void fields_drop(int);
IO("[method]input-stream.blocking-read") void stream_read(int stream, uint64_t most, answer *list);
IO("[method]output-stream.blocking-write-and-flush") void stream_write(int stream, const uint8_t *data, uint32_t size, answer *done);
IMPORT("wasi:io/error@0.2.0", "[resource-drop]error") void error_drop(int);
IO("[resource-drop]input-stream") void input_drop(int);
IO("[resource-drop]output-stream") void output_drop(int);

enum { GET, HEAD, POST };
enum form { JSON, NPY, NPZ, RAW, MULTIPART, TEXT, ZIP, UNKNOWN, FORMS_OF_ANSWERS = MULTIPART };
enum { NUMBER_BYTES = 64, STATUSES = 16, WRITTEN = 4096 };

static const char *const types[] = {"application/json", "application/x-npy", "application/x-npz", "application/octet-stream",
                                    "multipart/form-data", "text/plain", "application/zip"}; // by forms; the last one is another name of NPZ

static struct {
  int request, out, head;            // head: the answer has no body
  int body, stream;                  // of the request, 0 if nobody reads it
  int answered, last;                // last: all that is to come is in the buffer
  int response_body, response_stream;
  const char *type;                  // of the answer
  int status;
  int64_t size;                      // of the answer, if it is known
  uint64_t left, rest;               // how much longer the body may be, and is: the most there is if nobody said
} now;

static struct {
  int status;
  const char *what, *name; // name: what the client called an array
  const array *field;
  const uint32_t *sizes; // of the array that was given
  const char *type;      // 0: none was stated
  uint32_t rank;
} problem; // what it points at stays as it is

static struct {
  int status;
  uint32_t count;
} counts[STATUSES];

// ---- memory for what the host returns

// Where the next list of bytes goes, if not behind what is in use; `cabi_realloc` in the memory's module knows these two words.
typedef struct {
  uint8_t *direct;
  uint32_t used;
} arena;
MODEL("arena") arena *the_arena(void);

// ---- failing

int xw_server_failed(void) { return problem.status != 0; }

void xw_server_fail(int why, const char *what, const array *field) {
  if (!problem.status) problem.status = why == DAMAGED ? 400 : 422, problem.what = what, problem.field = field;
}

static void fail_status(int status, const char *what) {
  if (!problem.status) problem.status = status, problem.what = what;
}

void xw_server_fail_name(const char *what, const char *name) {
  if (failed()) return;
  problem.name = name;
  for (char *c = (char *)name; *c; c++) // as the client wrote it
    if (*c < ' ' || *c == 127) *c = '?';
  fail(UNFIT, what, 0);
}

void xw_server_fail_shape(const array *x, const char *type, uint32_t rank, const uint32_t *sizes) {
  if (failed()) return;
  fail(UNFIT, "an array has another shape or type", x);
  problem.type = type, problem.rank = rank, problem.sizes = sizes;
}

// ---- the answer

static string headers[3][2];
static uint32_t headers_made;

static void set_header(const char *name, const char *value) {
  string *to = headers[headers_made++];
  to[0].text = name, to[0].size = length(name), to[1].text = value, to[1].size = length(value);
}

static void start_answer(void) {
  static char digits[21];
  headers_made = 0;
  set_header("content-type", now.type);
  if (now.status == 405) set_header("allow", "GET, HEAD, POST");
  if (now.size >= 0) digits[print_integer((uint64_t)now.size, digits)] = 0, set_header("content-length", digits);
  fields_of(headers, headers_made, &got);
  int response = response_new((int)got.a);
  response_status(response, now.status);
  response_body(response, &got);
  now.response_body = (int)got.a;
  respond(now.out, 0, response, 0, 0, 0, 0, 0, 0);
  body_write(now.response_body, &got);
  now.response_stream = (int)got.a;
  now.answered = 1;
}

void xw_server_push(const uint8_t *from, uint32_t count) {
  if (!now.answered) {
    if (now.last && now.size < 0) now.size = count;
    start_answer();
  }
  if (now.head) return;
  for (uint32_t n; count; from += n, count -= n) {
    n = count < WRITTEN ? count : WRITTEN;
    stream_write(now.response_stream, from, n, &got);
    if (got.tag) break; // the client has gone
  }
}

static void begin(int status, const char *type, int64_t size) {
  now.status = status, now.type = type, now.size = size, now.answered = now.last = 0;
  out.at = out.is_summed = 0;
  for (uint32_t i = 0; i < STATUSES; i++) {
    if (counts[i].status && counts[i].status != status) continue;
    counts[i].status = status, counts[i].count++;
    break;
  }
}

static void end(void) {
  static uint64_t done[8];
  now.last = 1;
  flush();
  output_drop(now.response_stream);
  body_finish(now.response_body, 0, 0, done);
}

static void answer_problem(void) {
  int status = problem.status;
  begin(status, "application/json", -1);
  say("{\"error\":{\"status\":"), say_integer((uint64_t)status);
  say(",\"message\":"), say_json_text(problem.what);
  const array *x = problem.field;
  if (x || problem.name) say(",\"field\":"), say_json_text(x ? x->name : problem.name);
  if (x) say(",\"expected\":\""), say_type(x), emit('"');
  if (problem.sizes) {
    say(",\"given\":\"");
    if (problem.type) say(problem.type);
    say_shape(0, problem.rank, problem.sizes, 0), emit('"');
  }
  say("}}\n");
  end();
}

// ---- headers

// Whether a value begins with a text of small letters, itself in letters of any size, behind which comes no further one.
static int names(const char *value, const char *text) {
  while (*text)
    if ((*value++ | 32) != *text++) return 0;
  return !*value || *value == ';' || *value == ' ' || *value == ',';
}

// Puts a zero behind what the host has returned last.
static char *ended(uint32_t text, uint32_t size) {
  the_arena()->used++;
  ((char *)text)[size] = 0;
  return (char *)text;
}

// The value of a header, empty if there is none.
static const char *header(int fields, const char *name) {
  fields_get(fields, name, length(name), (string *)&got);
  const uint32_t *list = (const uint32_t *)((const string *)&got)->text;
  return ((const string *)&got)->size ? ended(list[0], list[1]) : "";
}

static enum form form_at(uint32_t i) { return i == ZIP ? NPZ : (enum form)i; }

static enum form form_of(const char *value) {
  for (uint32_t i = 0; i < UNKNOWN; i++)
    if (names(value, types[i])) return form_at(i);
  return UNKNOWN;
}

// How much a client wants a type, in thousandths; the more exact of its ranges counts.
static int wants(const char *accept, const char *type) {
  for (int found = -1, exact = -1;;) {
    while (*accept == ' ' || *accept == ',') accept++;
    if (!*accept) return found;
    int level = names(accept, type) ? 2 : names(accept, "*/*") ? 0 : -1, quality = 1000;
    uint32_t n = 0;
    while (type[n] != '/' && (accept[n] | 32) == type[n]) n++;
    if (level < 0 && type[n] == '/' && starts(accept + n, "/*")) level = 1; // application/*
    for (; *accept && *accept != ','; accept++)
      if ((*accept | 32) == 'q' && accept[1] == '=') {
        quality = 0;
        int unit = 1000;
        for (const char *c = accept + 2; *c == '.' || (*c >= '0' && *c <= '9'); c++)
          if (*c != '.') quality += (*c - '0') * unit, unit /= 10;
      }
    if (level > exact) exact = level, found = quality;
  }
}

// The form of an answer that the client likes best, of those that are as good the one of its own body.
static enum form best_answer(const char *accept, enum form given, const model *m) {
  enum form best = UNKNOWN, usual = given < FORMS_OF_ANSWERS ? given : JSON;
  if (m->results != 1 && (usual == NPY || usual == RAW)) usual = NPZ;
  int most = 0;
  for (uint32_t i = 0; i < UNKNOWN; i++) {
    enum form form = form_at(i);
    if (form >= FORMS_OF_ANSWERS || (m->results != 1 && (form == NPY || form == RAW))) continue;
    int wanted = *accept ? wants(accept, types[i]) : 1;
    if (wanted > most || (wanted == most && wanted && form == usual)) most = wanted, best = form;
  }
  return best;
}

// ---- bodies

static uint32_t pull_body(uint8_t *to, uint32_t room) {
  if (failed() || !now.rest) return 0;
  if (!now.left) {
    fail_status(413, "the body is larger than the inputs can be");
    return 0;
  }
  the_arena()->direct = to;
  stream_read(now.stream, room < now.left ? room : now.left, &got);
  the_arena()->direct = 0;
  if (got.tag) {
    // Its end, or an error, of which a handle stays; both before all has come that was announced, or the last chunk.
    int broken = !(uint8_t)got.a;
    if (broken) error_drop((int)got.b);
    if (broken || now.rest < UINT64_MAX / 2) fail(DAMAGED, "the body ends too early", 0);
    return 0;
  }
  now.left -= got.b, now.rest -= got.b;
  return got.b;
}

// Nothing is written before all has been read, so that both can have one buffer.
static reader body = {0, out.buffer, sizeof out.buffer, 0, 0};

static array *only_input(model *m) {
  array *x = next_input(m), *second = 0;
  if (x) {
    x->given = 1;
    second = next_input(m);
    x->given = 0;
  }
  if (!x || second) fail(UNFIT, x ? "the model has several inputs: an npz archive, a form or a JSON object has them by name" : "the model has no input", 0);
  return failed() ? 0 : x;
}

static void read_json_body(reader *in, model *m) {
  skip_blanks(in);
  if (peek(in) == '{') read_object(in, m);
  else {
    array *x = only_input(m);
    if (x) read_json(in, x);
  }
  skip_blanks(in);
}

static void read_form(reader *in, model *m, const char *type);

static void read_array(reader *in, model *m, array *x, enum form form) {
  (void)m;
  if (form == NPY || peek(in) == 0x93) read_npy(in, x);
  else if (form == RAW) read_raw(in, x);
  else if (form == JSON) skip_blanks(in), read_json(in, x), skip_blanks(in);
  else read_text(in, x);
}

static void read_body(model *m, enum form form, const char *type) {
  array *x = 0;
  if (form == JSON) read_json_body(&body, m);
  else if (form == NPZ) read_zip(&body, 0);
  else if (form == MULTIPART) read_form(&body, m, type);
  else if (form == UNKNOWN) fail_status(415, "a body is application/json (with curl -d: add -H 'Content-Type: application/json'), x-npy, x-npz or octet-stream, multipart/form-data or text/plain");
  else if ((x = only_input(m))) read_array(&body, m, x, form);
  if (!failed() && peek(&body) >= 0) fail(DAMAGED, "the body goes on behind the arrays", x);
  x = next_input(m);
  if (x) fail(UNFIT, "an input is missing", x); // if nothing else was wrong
}

// ---- forms: parts between lines of a boundary, each with headers of its own

static struct {
  reader in, *from;
  char boundary[80]; // with the line end and the dashes before it
  uint32_t size, matched, replay;
  int ended;
} entry;

// The bytes of a part: what looks like the boundary is held back until it is known.
static uint32_t pull_part(uint8_t *to, uint32_t room) {
  uint32_t n = 0;
  while (n < room && !entry.ended) {
    if (entry.replay) { // the beginning of a boundary that was none
      to[n++] = (uint8_t)entry.boundary[entry.matched - entry.replay];
      if (!--entry.replay) entry.matched = 0;
      continue;
    }
    int c = peek(entry.from);
    if (c < 0) {
      fail(DAMAGED, "the form does not end with its boundary", 0);
      return n;
    }
    if (c == (uint8_t)entry.boundary[entry.matched]) {
      next(entry.from);
      entry.ended = ++entry.matched == entry.size;
    } else if (entry.matched) entry.replay = entry.matched; // the boundary begins with its only carriage return
    else to[n++] = (uint8_t)next(entry.from);
  }
  return n;
}

uint32_t xw_server_pull(reader *in, uint8_t *to, uint32_t room) { return in == &entry.in ? pull_part(to, room) : pull_body(to, room); }

// Reads a line, as far as it fits; its length, or -1 at the end.
static int read_line(reader *in, char line[320]) {
  int n = 0, c;
  while ((c = next(in)) >= 0 && c != '\n')
    if (n < 319) line[n++] = (char)c;
  if (n && line[n - 1] == '\r') n--;
  line[n] = 0;
  return c < 0 ? -1 : n;
}

// The value of a parameter of a header, such as name="x"; 0 if there is none.
static const char *parameter(const char *line, const char *key, char value[260]) {
  for (; *line; line++) {
    if (*line != ' ' && *line != ';') continue;
    const char *c = line + 1;
    for (const char *k = key; *k && (*c | 32) == *k; k++) c++;
    if (*c != '=' || c - line <= (int32_t)length(key)) continue;
    line = c + 1;
    char stop = *line == '"' ? *line++ : ';';
    uint32_t k = 0;
    for (; *line && *line != stop && k < 259; line++) {
      if (*line == '\\' && stop == '"' && line[1]) line++;
      value[k++] = *line;
    }
    value[k] = 0;
    return value;
  }
  return 0;
}

static void read_form(reader *in, model *m, const char *type) {
  static char line[320], name[260], value[260];
  static uint8_t buffer[512];
  if (!parameter(type, "boundary", value) || !value[0] || length(value) > 70) return fail(DAMAGED, "the content type names no boundary", 0);
  copy(entry.boundary, "\r\n--", 4);
  copy(entry.boundary + 4, value, length(value) + 1);
  entry.size = length(entry.boundary), entry.from = in;
  do
    if (read_line(in, line) < 0) return fail(DAMAGED, "the form has no boundary", 0);
  while (!same(line, entry.boundary + 2));
  for (;;) {
    enum form form = UNKNOWN;
    name[0] = 0;
    for (int size; (size = read_line(in, line)) != 0;) {
      if (size < 0) return fail(DAMAGED, "the form ends in the headers of a part", 0);
      for (char *c = line; *c && *c != ':'; c++) *c |= 32;
      if (starts(line, "content-disposition")) {
        if (!parameter(line, "name", name)) name[0] = 0;
        const char *file = form == UNKNOWN ? parameter(line, "filename", value) : 0;
        if (file) form = ends_with(file, ".npy") ? NPY : ends_with(file, ".json") ? JSON : is_raw(file) ? RAW : form;
      } else if (starts(line, "content-type:")) {
        const char *c = line + 13;
        while (*c == ' ') c++;
        enum form stated = form_of(c);
        if (stated != UNKNOWN && !(stated == RAW && form != UNKNOWN)) form = stated; // browsers call files bytes
      }
    }
    array *x = named(m, name);
    entry.in = (reader){0, buffer, sizeof buffer, 0, 0};
    entry.matched = entry.replay = 0, entry.ended = 0;
    if (peek(&entry.in) >= 0) { // a field that was left empty does not count
      if (!is_new(x && x->kind == INPUT ? x : 0, name)) return;
      read_array(&entry.in, m, x, form);
      if (!failed() && peek(&entry.in) >= 0) fail(DAMAGED, "a part goes on behind its array", x);
    }
    if (failed()) return;
    read_line(in, line);
    if (starts(line, "--")) break;
  }
  while (next(in) >= 0) {}
}

// ---- answers

static void write_answer(model *m, enum form form) {
  int64_t size = -1;
  if (form == NPY) size = npy_bytes(m->result);
  else if (form == RAW) size = (int64_t)count_of(m->result) * m->result->type->bytes;
  else if (form == NPZ) size = zip_bytes(m->result, m->results);
  begin(200, types[form], size);
  if (form == NPY) write_npy(m->result);
  else if (form == RAW) write_raw(m->result);
  else if (form == NPZ) write_zip(m->result, m->results);
  else write_json_results(m, 0);
  end();
}

MODEL("serve") void serve(const model *);

void xw_server_serve(const model *m) {
  uint32_t *request = (uint32_t *)m->request;
  problem.name = m->transfer[request[0]].name;
  request[1] = 0; // the next run begins anew
  if (m->transfer[request[0]].kind == ASSERTION) fail_status(422, "the inputs do not fit together");
  fail_status(500, "the run has reached a Python function, which a server does not have");
}

void xw_server_no_serve(const model *m) { (void)m; }

static void post(model *m, int fields) {
  const char *type = header(fields, "content-type"), *stated = header(fields, "content-length"), *accept = header(fields, "accept");
  const char *coding = header(fields, "content-encoding");
  enum form form = *type ? form_of(type) : JSON, wanted = best_answer(accept, form, m);
  uint64_t limit = 65536, bytes = 0, announced = 0;
  for (array *x = m->parameter; x < m->end; x++) {
    x->given = 0;
    if (x->kind == STATE) { // each request begins with the states as they are at first
      if (x->init) copy(x->data, (const uint8_t *)x->init, x->bytes);
      else __builtin_memset(x->data, 0, x->bytes);
      for (uint32_t d = 0; d < x->rank; d++)
        if (x->dims[d].actual) *x->dims[d].actual = 0;
    }
    if (x->kind != INPUT) continue;
    bytes += x->bytes;
    limit += (uint64_t)x->bytes / x->type->bytes * NUMBER_BYTES + 65536;
  }
  now.left = form == RAW ? bytes + 1 : limit;
  for (const char *c = stated; *c && announced < UINT64_MAX / 20; c++) announced = announced * 10 + (uint64_t)(*c - '0');
  now.rest = *stated ? announced : UINT64_MAX; // far above what comes, where nobody said
  if (announced > (form == RAW ? bytes : limit)) return fail_status(413, "the body is larger than the inputs can be");
  if (*coding && !names(coding, "identity")) return fail_status(415, "a compressed body is not read");
  if (wanted == UNKNOWN) return fail_status(406, "an answer is application/json or x-npz, or for one result x-npy or octet-stream");
  request_consume(now.request, &got);
  now.body = (int)got.a;
  body_stream(now.body, &got);
  now.stream = (int)got.a;
  body.at = body.end = 0;
  read_body(m, form, type);
  if (failed()) return;
  for (uint32_t i = 0; i < m->inits; i++) init(m->init[i]);
  m->inits = 0;
  if (run()) return serve(m);
  write_answer(m, wanted);
}

static void say_leaves(const char *key, const array *x, uint32_t count, uint32_t kind) {
  uint32_t said = 0;
  say(",\""), say(key), say("\":[");
  for (; count--; x++) {
    if (x->kind != kind) continue;
    if (said++) emit(',');
    say("{\"name\":"), say_json_text(x->name);
    say(",\"type\":\""), say(x->type->name), say("\",\"shape\":"), say_shape(x, x->rank, 0, "\""), emit('}');
  }
  emit(']');
}

static const char page[] = // elements with an id are variables of a script
    "<!doctype html><html lang=en><meta name=viewport content=width=device-width><style>"
    "html{color-scheme:light dark}body{font:1em/1.5 system-ui;max-width:44em;margin:auto;padding:1em}label{font-weight:600}"
    "input,textarea{display:block;margin:.5em 0}textarea,pre,button{border:1px solid #888;border-radius:.5em;padding:.6em}"
    "textarea{box-sizing:border-box;width:100%;height:7em}pre{white-space:pre-wrap;overflow-wrap:anywhere}pre:empty{display:none}"
    "button{background:#55d;color:#fff}</style><h1 id=h></h1><form id=f></form><pre id=o role=status></pre><script type=module>"
    "const d=document,e=(n,p)=>f.appendChild(Object.assign(d.createElement(n),p)),"
    "g=async o=>(await fetch('?',{headers:{accept:'application/json'},...o})).json(),s=await g();d.title=h.innerText=s.name;"
    "for(const{name,type,shape}of s.inputs)e('label',{innerText:`${name} ${type}[${shape}]`})"
    ".append(e('input',{type:'file',name}),e('textarea',{name,placeholder:'or numbers, as JSON'}));e('button',{innerText:'Run'});"
    "f.onsubmit=async v=>{v.preventDefault();o.innerText='…';"
    "o.innerText=Object.entries(await g({method:'POST',body:new FormData(f)})).map(([k,v])=>k+': '+JSON.stringify(v)).join`\\n`}</script>";

static void get(model *m, const char *path, int fields) {
  if (same(path, "/healthz")) begin(200, "text/plain", -1), say("ok\n");
  else if (same(path, "/metrics")) {
    begin(200, "text/plain; version=0.0.4", -1);
    say("# TYPE xla_wasm_requests_total counter\n");
    for (uint32_t i = 0; i < STATUSES && counts[i].status; i++)
      say("xla_wasm_requests_total{status=\""), say_integer((uint64_t)counts[i].status), say("\"} "), say_integer(counts[i].count), emit('\n');
    say("# TYPE xla_wasm_memory_bytes gauge\nxla_wasm_memory_bytes "), say_integer((uint64_t)__builtin_wasm_memory_size(0) << 16), emit('\n');
  } else {
    const char *accept = header(fields, "accept");
    if (wants(accept, "text/html") > wants(accept, "application/json")) begin(200, "text/html; charset=utf-8", sizeof page - 1), say(page);
    else {
      begin(200, "application/json", -1);
      say("{\"name\":"), say_json_text(m->name);
      say_leaves("inputs", m->parameter, m->parameters, INPUT);
      say_leaves("results", m->result, m->results, OUTPUT);
      say("}\n");
    }
  }
  end();
}

void xw_server(int request, int out_parameter) {
  model *m = description();
  the_arena()->used = 0, the_arena()->direct = 0;
  __builtin_memset(&problem, 0, sizeof problem);
  now.request = request, now.out = out_parameter, now.stream = now.body = 0;
  request_method(request, &got);
  uint32_t method = got.tag;
  request_path(request, &got);
  const char *path = "/";
  if (got.tag) {
    path = ended(got.a, got.b);
    for (char *c = (char *)path; *c; c++)
      if (*c == '?') *c = 0;
  }
  int fields = request_headers(request), root = same(path, "/");
  now.head = method == HEAD;
  if (!root && !same(path, "/healthz") && !same(path, "/metrics")) fail_status(404, "there is nothing here but /, /healthz and /metrics");
  else if (method <= HEAD) get(m, path, fields);
  else if (method == POST && root) post(m, fields);
  else fail_status(405, "POST / runs the model, GET / tells what it takes");
  if (failed()) answer_problem();
  fields_drop(fields);
  if (now.stream) input_drop(now.stream);
  if (now.body) incoming_drop(now.body);
  request_drop(request);
}
