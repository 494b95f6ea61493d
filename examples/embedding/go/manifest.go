package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Array is an array in the module's memory.
type Array struct {
	Name   string
	Kind   string
	Offset uint64
	Bytes  uint64
	Init   *int     // of a weight that `init` packs, the entry of Inits
	Sizes  []*int64 // where the sizes of dynamic dimensions lie
	Shards *struct{ Starts [][]int64 }
}

// Manifest is what this host needs of the manifest.
type Manifest struct {
	Format     int
	Name       string
	Features   []string
	Pages      uint64
	Parameters []Array
	Results    []Array
	Inits      []struct {
		Index         int32
		Kind, Name    string
		Staging       uint64
		Bytes         uint64
		SidecarOffset uint64 `json:"sidecar_offset"`
		SHA256        string
	}
	Steps    struct{ Names []string }
	Requests []struct {
		Kind, Name, Target string
		Operands, Results  []Array
	}
	Devices *struct{ Least int }
	Config  uint64
	Request uint64
}

// readManifest gives the manifest in a module's custom section "xla_wasm". A section is a byte for its kind, its size as LEB128, and
// its content; that of a custom section (kind 0) begins with the size and the bytes of its name.
func readManifest(wasm []byte) (*Manifest, error) {
	if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, errors.New("this is not a WebAssembly module")
	}
	for rest := wasm[8:]; len(rest) > 0; {
		size, length := binary.Uvarint(rest[1:])
		if length <= 0 || size > uint64(len(rest)-1-length) {
			return nil, errors.New("it is damaged: it ends within a section")
		}
		content := rest[1+length:][:size]
		if rest[0] != 0 || !bytes.HasPrefix(content, []byte("\x08xla_wasm")) {
			rest = rest[1+length+len(content):]
			continue
		}
		var manifest Manifest
		if err := json.Unmarshal(content[9:], &manifest); err != nil {
			return nil, fmt.Errorf("the manifest is damaged: %w", err)
		}
		return &manifest, manifest.check()
	}
	return nil, errors.New("it has no section 'xla_wasm': it was not made by xla_wasm, or was stripped")
}

// check says why this host cannot run the module, if it cannot: it is one device, and knows no sizes but those that are fixed.
func (m *Manifest) check() error {
	if m.Format != 1 {
		return fmt.Errorf("this host reads format 1, the artifact has %d: compile it again", m.Format)
	}
	for _, feature := range m.Features {
		if feature != "simd128" && feature != "relaxed-simd" {
			return fmt.Errorf("this host does not know the feature %s", feature)
		}
	}
	if m.Devices != nil && m.Devices.Least > 1 {
		return fmt.Errorf("it runs on %d devices and more, and this host is one", m.Devices.Least)
	}
	arrays := append(append([]Array{}, m.Parameters...), m.Results...)
	for _, request := range m.Requests {
		arrays = append(append(arrays, request.Operands...), request.Results...)
	}
	for _, array := range arrays {
		if array.Sizes != nil {
			return fmt.Errorf("'%s' has dynamic dimensions, and this host writes and reads no sizes: see docs/embedding.md", array.Name)
		}
		if array.Shards != nil && len(array.Shards.Starts) > 1 {
			return fmt.Errorf("'%s' is divided among several devices, and this host is one", array.Name)
		}
		if array.Init != nil && (*array.Init < 0 || *array.Init >= len(m.Inits)) {
			return fmt.Errorf("the manifest is wrong: '%s' has init %d of %d", array.Name, *array.Init, len(m.Inits))
		}
	}
	return nil
}
