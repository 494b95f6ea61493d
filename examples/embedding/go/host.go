// Runs an artifact of xla_wasm in Go: capi.go calls wasmtime's C API, manifest.go reads the manifest. The README beside has the
// command lines; docs/embedding.md says what has to be done, and why in this order. For little-endian machines.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Model is the module with its manifest.
type Model struct {
	*Manifest
	*Instance
}

// run runs on, to the end (0) or to a request.
func (m *Model) run() (int32, error) {
	outcome, err := m.callRun()
	if err != nil {
		// The module keeps the number of its step where a host finds it after a trap.
		step, name := m.word(m.Config), "no step"
		if step < uint64(len(m.Steps.Names)) {
			name = m.Steps.Names[step]
		}
		return 0, fmt.Errorf("the module failed in step %d, '%s': %w", step, name, err)
	}
	return outcome, nil
}

// fill fills an array from a file, which has to hold so many bytes.
func (m *Model) fill(array Array, source io.Reader, path string) error {
	at := array.Offset
	if array.Init != nil {
		at = m.Inits[*array.Init].Staging
	}
	place, err := m.bytes(at, array.Bytes)
	if err != nil {
		return err
	}
	if got, err := io.ReadFull(source, place); err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%s: it ends after %d of the %d bytes of '%s'", path, got, array.Bytes, array.Name)
	} else if err != nil {
		return err
	}
	if array.Init != nil {
		return m.callInit(m.Inits[*array.Init].Index)
	}
	return nil
}

// fillFrom fills an array from a file of its own, which holds nothing else.
func (m *Model) fillFrom(array Array, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := m.fill(array, file, path); err != nil {
		return err
	}
	return ended(file, path, fmt.Sprintf("the %d bytes of '%s'", array.Bytes, array.Name))
}

func ended(source io.Reader, path, what string) error {
	if got, _ := source.Read(make([]byte, 1)); got > 0 {
		return fmt.Errorf("%s: it has more than %s", path, what)
	}
	return nil
}

// prepareConstants takes large constants from the .weights file, checked, and has `init` make ready whatever no caller sets, in the
// order of the list.
func (m *Model) prepareConstants(path string) error {
	path = strings.TrimSuffix(path, filepath.Ext(path)) + ".weights"
	var weights []byte
	for _, entry := range m.Inits {
		if entry.Kind == "sidecar" {
			var err error
			if weights == nil {
				if weights, err = os.ReadFile(path); err != nil {
					return err
				}
			}
			if all := uint64(len(weights)); entry.SidecarOffset > all || entry.Bytes > all-entry.SidecarOffset {
				return fmt.Errorf("%s: it ends within '%s': it is cut short, or of another module", path, entry.Name)
			}
			part := weights[entry.SidecarOffset:][:entry.Bytes]
			if hash := sha256.Sum256(part); hex.EncodeToString(hash[:]) != entry.SHA256 {
				return fmt.Errorf("%s: '%s' is not what the module was compiled with: it is damaged, or of another module", path, entry.Name)
			}
			place, err := m.bytes(entry.Staging, entry.Bytes)
			if err != nil {
				return err
			}
			copy(place, part)
		}
		if entry.Kind != "weight" {
			if err := m.callInit(entry.Index); err != nil {
				return err
			}
		}
	}
	return nil
}

// serve serves the request that a run waits for: an infeed takes from one file, an outfeed puts into another.
func (m *Model) serve(infeed, outfeed *os.File) error {
	number := m.word(m.Manifest.Request)
	if number >= uint64(len(m.Requests)) {
		return fmt.Errorf("the module makes request %d of %d", number, len(m.Requests))
	}
	request := m.Requests[number]
	switch {
	case request.Kind == "infeed" && infeed != nil:
		for _, array := range request.Results {
			if err := m.fill(array, infeed, "the infeed"); err != nil {
				return err
			}
		}
	case request.Kind == "outfeed" && outfeed != nil:
		return m.put(request.Operands, outfeed)
	default:
		const serves = "this host serves --infeed=FILE and --outfeed=FILE"
		return fmt.Errorf("'%s' asks for %s %s: %s", request.Name, request.Kind, request.Target, serves)
	}
	return nil
}

// put writes arrays to a file, one after another.
func (m *Model) put(arrays []Array, file *os.File) error {
	for _, array := range arrays {
		data, err := m.bytes(array.Offset, array.Bytes)
		if err == nil {
			_, err = file.Write(data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ofKind gives the arrays of that kind.
func ofKind(arrays []Array, kind string) (found []Array) {
	for _, array := range arrays {
		if array.Kind == kind {
			found = append(found, array)
		}
	}
	return found
}

// readOptions gives what stands behind NAME= in the arguments; names may have equals signs of their own.
func readOptions(arguments []string, parameters []Array) (map[string]string, error) {
	names := []string{"--runs", "--infeed", "--outfeed"}
	for _, parameter := range parameters {
		names = append(names, parameter.Name)
	}
	options := map[string]string{}
	for _, argument := range arguments {
		known := false
		for _, name := range names {
			if strings.HasPrefix(argument, name+"=") {
				options[name], known = argument[len(name)+1:], true
			}
		}
		if !known {
			return nil, fmt.Errorf("%s: there is no such option, input, weight or state", argument)
		}
	}
	return options, nil
}

// start makes a model ready: instantiated, with its constants, weights and states.
func start(path string, arguments []string) (*Model, map[string]string, error) {
	wasm, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	manifest, err := readManifest(wasm)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	options, err := readOptions(arguments, manifest.Parameters)
	if err != nil {
		return nil, nil, err
	}
	instance, err := instantiate(wasm, manifest.Pages)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	model := &Model{manifest, instance}
	if err := model.prepareConstants(path); err != nil {
		return nil, nil, err
	}
	for _, held := range append(ofKind(model.Parameters, "weight"), ofKind(model.Parameters, "state")...) {
		// A weight must be set, a state begins with zeros.
		if given, ok := options[held.Name]; ok {
			err = model.fillFrom(held, given)
		} else if held.Kind == "weight" {
			err = fmt.Errorf("weight '%s' has not been set: give %[1]s=FILE, %d bytes", held.Name, held.Bytes)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return model, options, nil
}

func host(path string, arguments []string) error {
	model, options, err := start(path, arguments)
	if err != nil {
		return err
	}
	var infeed, outfeed *os.File
	if given, ok := options["--infeed"]; ok {
		if infeed, err = os.Open(given); err != nil {
			return err
		}
	}
	if given, ok := options["--outfeed"]; ok {
		if outfeed, err = os.Create(given); err != nil {
			return err
		}
	}
	count := 1
	if given, ok := options["--runs"]; ok {
		if count, err = strconv.Atoi(given); err != nil || count < 1 {
			return fmt.Errorf("--runs=%s: it must be 1 or more", given)
		}
	}
	streamed := false
	for ; count > 0; count-- {
		for _, input := range ofKind(model.Parameters, "input") {
			if given, ok := options[input.Name]; ok {
				err = model.fillFrom(input, given)
			} else {
				streamed, err = true, model.fill(input, os.Stdin, "standard input")
			}
			if err != nil {
				return err
			}
		}
		for {
			waits, err := model.run()
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if waits == 0 {
				break
			}
			if err := model.serve(infeed, outfeed); err != nil {
				return err
			}
		}
		if err := model.put(ofKind(model.Results, "output"), os.Stdout); err != nil {
			return err
		}
	}
	if streamed {
		return ended(os.Stdin, "standard input", "the inputs of these runs")
	}
	return nil
}

func main() {
	err := error(nil)
	if len(os.Args) < 2 {
		err = fmt.Errorf("usage: %s MODEL.wasm [--runs=N] [--infeed=FILE] [--outfeed=FILE] [NAME=FILE ...] < inputs > results", os.Args[0])
	} else {
		err = host(os.Args[1], os.Args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
