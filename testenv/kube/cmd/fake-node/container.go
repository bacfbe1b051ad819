package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// containers are made when they are first asked for: one for each pod, by namespace and name.
type containers struct {
	directory string
	command   []string
	mutex     sync.Mutex
	byPod     map[string]*container
}

func newContainers(directory string, command []string) *containers {
	return &containers{directory: directory, command: command, byPod: map[string]*container{}}
}

func (c *containers) of(pod string) (*container, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if found, known := c.byPod[pod]; known {
		return found, nil
	}
	directory := filepath.Join(c.directory, filepath.FromSlash(pod))
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, fmt.Errorf("making the pod's directory: %w", err)
	}
	made := &container{directory: directory, output: newOutput()}
	if err := made.start(c.command); err != nil {
		return nil, err
	}
	c.byPod[pod] = made
	return made, nil
}

// container is a directory and a main process, which is started again whenever it ends.
type container struct {
	directory string
	output    *output
	mutex     sync.Mutex
	input     io.WriteCloser
	// Closed when the main process ends.
	over chan struct{}
}

func (c *container) start(command []string) error {
	process := exec.CommandContext(context.Background(), command[0], command[1:]...)
	local(process, c.directory)
	input, err := process.StdinPipe()
	if err != nil {
		return err
	}
	process.Stdout, process.Stderr = c.output.writer(stdout), c.output.writer(stderr)
	if err := process.Start(); err != nil {
		return fmt.Errorf("starting the main process: %w", err)
	}
	over := make(chan struct{})
	c.mutex.Lock()
	c.input, c.over = input, over
	c.mutex.Unlock()
	go func() {
		_ = process.Wait()
		if err := c.start(command); err != nil {
			log.Print(err)
		}
		close(over)
	}()
	return nil
}

// AttachContainer gives a client the input and output of the main process until either ends.
func (c *containers) AttachContainer(ctx context.Context, pod, _, _ string, in io.Reader, out, err io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize) error {
	container, failure := c.of(pod)
	if failure != nil {
		return failure
	}
	container.mutex.Lock()
	input, over := container.input, container.over
	container.mutex.Unlock()
	from := container.output.len()
	if in != nil {
		go func() { _, _ = io.Copy(input, in) }()
	}
	return container.output.follow(ctx, from, over, func(piece piece) error {
		to := out
		if piece.stream == stderr {
			to = err
		}
		if to == nil {
			return nil
		}
		_, failure := to.Write(piece.bytes)
		return failure
	})
}
