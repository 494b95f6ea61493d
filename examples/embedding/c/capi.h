// What host.c and host.go use of wasmtime's C API, as wasmtime 50 has it on machines of 64 bits. The shared library inside the
// Python package comes without headers; where they are at hand, include <wasmtime.h> instead.
#ifndef CAPI_H
#define CAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct { size_t size; char *data; } wasm_byte_vec_t;
typedef struct { uint64_t store; void *inside; } wasmtime_func_t;
typedef struct { struct { uint64_t store; uint32_t inside; } in; uint32_t index; } wasmtime_memory_t;
typedef struct { uint64_t store; size_t inside; } wasmtime_instance_t;
typedef struct { uint8_t kind; union { wasmtime_func_t func; wasmtime_memory_t memory; uint64_t room[3]; } of; } wasmtime_extern_t;
typedef struct { uint8_t kind; union { int32_t i32; uint64_t room[3]; } of; } wasmtime_val_t;
enum { WASMTIME_EXTERN_FUNC = 0, WASMTIME_EXTERN_MEMORY = 3, WASMTIME_I32 = 0 };
typedef struct wasm_engine wasm_engine_t;
typedef struct wasm_trap wasm_trap_t;
typedef struct wasmtime_context wasmtime_context_t;
typedef struct wasmtime_error wasmtime_error_t;
typedef struct wasmtime_module wasmtime_module_t;
typedef struct wasmtime_store wasmtime_store_t;
wasm_engine_t *wasm_engine_new(void);
void wasm_engine_delete(wasm_engine_t *);
wasmtime_store_t *wasmtime_store_new(wasm_engine_t *, void *data, void (*finalizer)(void *));
void wasmtime_store_delete(wasmtime_store_t *);
wasmtime_context_t *wasmtime_store_context(wasmtime_store_t *);
wasmtime_error_t *wasmtime_module_new(wasm_engine_t *, const uint8_t *, size_t, wasmtime_module_t **);
void wasmtime_module_delete(wasmtime_module_t *);
wasmtime_error_t *wasmtime_instance_new(wasmtime_context_t *, const wasmtime_module_t *, const wasmtime_extern_t *imports, size_t,
                                        wasmtime_instance_t *, wasm_trap_t **);
bool wasmtime_instance_export_get(wasmtime_context_t *, const wasmtime_instance_t *, const char *, size_t, wasmtime_extern_t *);
wasmtime_error_t *wasmtime_func_call(wasmtime_context_t *, const wasmtime_func_t *, const wasmtime_val_t *, size_t, wasmtime_val_t *,
                                     size_t, wasm_trap_t **);
uint8_t *wasmtime_memory_data(const wasmtime_context_t *, const wasmtime_memory_t *);
size_t wasmtime_memory_data_size(const wasmtime_context_t *, const wasmtime_memory_t *);
void wasmtime_error_message(const wasmtime_error_t *, wasm_byte_vec_t *);
void wasmtime_error_delete(wasmtime_error_t *);
void wasm_trap_message(const wasm_trap_t *, wasm_byte_vec_t *);
void wasm_trap_delete(wasm_trap_t *);
void wasm_byte_vec_delete(wasm_byte_vec_t *);

#endif
