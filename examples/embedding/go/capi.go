package main

// #cgo CFLAGS: -I${SRCDIR}/../c
// #include <stdlib.h>
// #include "capi.h"
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// Instance is a module, ready to run. Engine, store and compiled module last as long as the program.
type Instance struct {
	context   *C.wasmtime_context_t
	init, run C.wasmtime_func_t
	memory    []byte // stays where it is, since it cannot grow
}

// failure is what wasmtime says of an error or a trap; nil if there is neither.
func failure(err *C.wasmtime_error_t, trap *C.wasm_trap_t) error {
	var text C.wasm_byte_vec_t
	if err != nil {
		C.wasmtime_error_message(err, &text)
	} else if trap != nil {
		C.wasm_trap_message(trap, &text)
	} else {
		return nil
	}
	return errors.New(C.GoStringN(text.data, C.int(text.size)))
}

// instantiate compiles and instantiates a module that imports nothing; its memory has to have so many pages of 65536 bytes.
func instantiate(wasm []byte, pages uint64) (*Instance, error) {
	var module *C.wasmtime_module_t
	var instance C.wasmtime_instance_t
	var trap *C.wasm_trap_t
	engine := C.wasm_engine_new()
	context := C.wasmtime_store_context(C.wasmtime_store_new(engine, nil, nil))
	// It refuses what this machine or engine cannot run.
	err := C.wasmtime_module_new(engine, (*C.uint8_t)(&wasm[0]), C.size_t(len(wasm)), &module)
	if err == nil {
		err = C.wasmtime_instance_new(context, module, nil, 0, &instance, &trap)
	}
	if why := failure(err, trap); why != nil {
		return nil, why
	}
	var found [3]C.wasmtime_extern_t
	for i, name := range []string{"memory", "init", "run"} {
		kind, text := map[bool]C.uint8_t{true: C.WASMTIME_EXTERN_MEMORY, false: C.WASMTIME_EXTERN_FUNC}[i == 0], C.CString(name)
		there := C.wasmtime_instance_export_get(context, &instance, text, C.size_t(len(name)), &found[i])
		C.free(unsafe.Pointer(text))
		if !there || found[i].kind != kind {
			return nil, fmt.Errorf("the module exports no '%s'", name)
		}
	}
	memory := (*C.wasmtime_memory_t)(unsafe.Pointer(&found[0].of))
	size := uint64(C.wasmtime_memory_data_size(context, memory))
	if size != pages<<16 {
		return nil, fmt.Errorf("its memory has %d bytes, its manifest states %d pages", size, pages)
	}
	data := unsafe.Slice((*byte)(C.wasmtime_memory_data(context, memory)), size)
	init, run := *(*C.wasmtime_func_t)(unsafe.Pointer(&found[1].of)), *(*C.wasmtime_func_t)(unsafe.Pointer(&found[2].of))
	return &Instance{context, init, run, data}, nil
}

func (x *Instance) bytes(at, size uint64) ([]byte, error) {
	if all := uint64(len(x.memory)); at > all || size > all-at {
		return nil, fmt.Errorf("%d bytes at %d reach beyond the memory of %d bytes", size, at, all)
	}
	return x.memory[at:][:size], nil
}

func (x *Instance) word(at uint64) uint64 {
	four, err := x.bytes(at, 4)
	if err != nil {
		return 1 << 32 // the number of nothing
	}
	return uint64(binary.LittleEndian.Uint32(four))
}

func (x *Instance) callInit(index int32) error {
	value := C.wasmtime_val_t{kind: C.WASMTIME_I32}
	*(*int32)(unsafe.Pointer(&value.of)) = index
	var trap *C.wasm_trap_t
	err := C.wasmtime_func_call(x.context, &x.init, &value, 1, nil, 0, &trap)
	return failure(err, trap)
}

// callRun runs on, to the end (0) or to a request.
func (x *Instance) callRun() (int32, error) {
	var value C.wasmtime_val_t
	var trap *C.wasm_trap_t
	err := C.wasmtime_func_call(x.context, &x.run, nil, 0, &value, 1, &trap)
	return *(*int32)(unsafe.Pointer(&value.of)), failure(err, trap)
}
