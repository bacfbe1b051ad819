package main

import (
	"context"
	"io"
	"sync"
)

type stream int

const (
	stdout stream = iota
	stderr
)

// piece is what a main process wrote at once; for the processes of the tests that is a line.
type piece struct {
	stream stream
	bytes  []byte
}

// output is all that main processes of a container wrote: its log.
type output struct {
	mutex   sync.Mutex
	pieces  []piece
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

type pieceWriter struct {
	output *output
	stream stream
}

func (o *output) writer(stream stream) io.Writer { return pieceWriter{o, stream} }

func (w pieceWriter) Write(bytes []byte) (int, error) {
	w.output.mutex.Lock()
	defer w.output.mutex.Unlock()
	w.output.pieces = append(w.output.pieces, piece{w.stream, append([]byte(nil), bytes...)})
	close(w.output.changed)
	w.output.changed = make(chan struct{})
	return len(bytes), nil
}

func (o *output) len() int { return len(o.since(0)) }

func (o *output) since(from int) []piece {
	pieces, _ := o.sinceAndNext(from)
	return pieces
}

func (o *output) sinceAndNext(from int) ([]piece, <-chan struct{}) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.pieces[from:], o.changed
}

// follow delivers what was written since, and goes on until the context, the process or the delivery ends.
func (o *output) follow(ctx context.Context, from int, over <-chan struct{}, deliver func(piece) error) error {
	for {
		// Asked before what there is, so that a process's last words are delivered.
		ended := false
		select {
		case <-over:
			ended = true
		default:
		}
		pieces, changed := o.sinceAndNext(from)
		for _, piece := range pieces {
			if err := deliver(piece); err != nil {
				return err
			}
		}
		from += len(pieces)
		if ended {
			return nil
		}
		select {
		case <-changed:
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
