//! An instance of a module, through the few functions of wasmtime's C API that it takes, as wasmtime 50 has them on machines of
//! 64 bits. With the crate `wasmtime` none of this is needed.

use std::{ffi::c_void, ptr, slice};

type Raw = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Func(u64, Raw);
#[repr(C)]
#[derive(Clone, Copy)]
struct Store(u64, u32);
#[repr(C)]
#[derive(Clone, Copy)]
struct Memory(Store, u32);
#[repr(C)]
struct Made(u64, usize);
#[repr(C)]
union Item {
    func: Func,
    memory: Memory,
    i32: i32,
    room: [u64; 3],
}
#[repr(C)]
struct Tagged {
    kind: u8,
    of: Item,
}
#[repr(C)]
struct Text {
    size: usize,
    data: *const u8,
}
const FUNC: u8 = 0;
const MEMORY: u8 = 3;
const I32: u8 = 0;

extern "C" {
    fn wasm_engine_new() -> Raw;
    fn wasmtime_store_new(engine: Raw, data: Raw, finalizer: Raw) -> Raw;
    fn wasmtime_store_context(store: Raw) -> Raw;
    fn wasmtime_module_new(engine: Raw, wasm: *const u8, size: usize, module: *mut Raw) -> Raw;
    fn wasmtime_instance_new(context: Raw, module: Raw, imports: Raw, count: usize, made: *mut Made, trap: *mut Raw) -> Raw;
    fn wasmtime_instance_export_get(context: Raw, of: *const Made, name: *const u8, size: usize, found: *mut Tagged) -> bool;
    fn wasmtime_func_call(
        context: Raw,
        func: *const Func,
        arguments: *const Tagged,
        count: usize,
        results: *mut Tagged,
        room: usize,
        trap: *mut Raw,
    ) -> Raw;
    fn wasmtime_memory_data(context: Raw, memory: *const Memory) -> *mut u8;
    fn wasmtime_memory_data_size(context: Raw, memory: *const Memory) -> usize;
    fn wasmtime_error_message(error: Raw, text: *mut Text);
    fn wasm_trap_message(trap: Raw, text: *mut Text);
}

type Result<T> = std::result::Result<T, String>;

/// A module, ready to run. Engine, store and compiled module last as long as the program.
pub struct Instance {
    context: Raw,
    memory: &'static mut [u8], // stays where it is, since it cannot grow
    pub init: Func,
    pub run: Func,
}

impl Instance {
    /// Compiles and instantiates a module that imports nothing; its memory has to have so many bytes.
    pub fn new(wasm: &[u8], memory_bytes: usize) -> Result<Instance> {
        let (mut module, mut trap, mut made) = (ptr::null_mut(), ptr::null_mut(), Made(0, 0));
        unsafe {
            let engine = wasm_engine_new();
            let context = wasmtime_store_context(wasmtime_store_new(engine, ptr::null_mut(), ptr::null_mut()));
            let error = wasmtime_module_new(engine, wasm.as_ptr(), wasm.len(), &mut module);
            check(error, trap)?; // refuses what this machine or engine cannot run
            let error = wasmtime_instance_new(context, module, ptr::null_mut(), 0, &mut made, &mut trap);
            check(error, trap)?;
            let find = |name: &str, kind: u8| {
                let mut found = Tagged { kind: 0, of: Item { room: [0; 3] } };
                let there = wasmtime_instance_export_get(context, &made, name.as_ptr(), name.len(), &mut found);
                if there && found.kind == kind {
                    Ok(found.of)
                } else {
                    Err(format!("the module exports no '{name}'"))
                }
            };
            let (memory, init, run) = (find("memory", MEMORY)?.memory, find("init", FUNC)?.func, find("run", FUNC)?.func);
            let size = wasmtime_memory_data_size(context, &memory);
            if size != memory_bytes {
                return Err(format!("its memory has {size} bytes, its manifest states {memory_bytes}"));
            }
            let memory = slice::from_raw_parts_mut(wasmtime_memory_data(context, &memory), size);
            Ok(Instance { context, memory, init, run })
        }
    }

    /// Calls `init` with its argument, or `run`, which gives a number.
    pub fn call(&mut self, func: Func, argument: Option<i32>) -> Result<i32> {
        let argument = argument.map(|i32| Tagged { kind: I32, of: Item { i32 } });
        let mut result = Tagged { kind: I32, of: Item { i32: 0 } };
        let (given, count) = argument.as_ref().map_or((ptr::null(), 0), |value| (value as *const Tagged, 1));
        let mut trap = ptr::null_mut();
        unsafe {
            let error = wasmtime_func_call(self.context, &func, given, count, &mut result, 1 - count, &mut trap);
            check(error, trap).map(|()| result.of.i32)
        }
    }

    pub fn bytes(&mut self, at: usize, size: usize) -> Result<&mut [u8]> {
        let all = self.memory.len();
        let end = at.checked_add(size).filter(|end| *end <= all);
        end.map(move |end| &mut self.memory[at..end])
            .ok_or_else(|| format!("{size} bytes at {at} reach beyond the memory of {all} bytes"))
    }

    pub fn word(&mut self, at: usize) -> Result<usize> {
        self.bytes(at, 4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]) as usize)
    }
}

/// What wasmtime says of an error or a trap.
unsafe fn check(error: Raw, trap: Raw) -> Result<()> {
    let mut text = Text { size: 0, data: ptr::null() };
    if !error.is_null() {
        wasmtime_error_message(error, &mut text);
    } else if !trap.is_null() {
        wasm_trap_message(trap, &mut text);
    } else {
        return Ok(());
    }
    Err(String::from_utf8_lossy(slice::from_raw_parts(text.data, text.size)).into_owned())
}
