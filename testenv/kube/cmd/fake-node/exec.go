package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// local makes a command run in a directory, in a process group of its own, and end at the latest with this program.
func local(command *exec.Cmd, directory string) {
	command.Dir = directory
	command.Env = append(os.Environ(), "HOME="+directory)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}

// ExecInContainer runs a command until it or the client's connection ends.
func (c *containers) ExecInContainer(ctx context.Context, pod, _, _ string, cmd []string, in io.Reader,
	out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	container, failure := c.of(pod)
	if failure != nil {
		return failure
	}
	if len(cmd) == 0 {
		return errors.New("there is no command")
	}
	command := exec.CommandContext(ctx, cmd[0], cmd[1:]...)
	local(command, container.directory)
	if tty {
		return told(onTerminal(command, in, out, resize))
	}
	return told(onPipes(command, in, out, err))
}

func onPipes(command *exec.Cmd, in io.Reader, out, err io.Writer) error {
	// nil of one type in a variable of another is not nil.
	if out != nil {
		command.Stdout = out
	}
	if err != nil {
		command.Stderr = err
	}
	if in != nil {
		// Not command.Stdin: waiting for the command's end would then wait for the client's, too.
		input, failure := command.StdinPipe()
		if failure != nil {
			return failure
		}
		go func() {
			_, _ = io.Copy(input, in)
			_ = input.Close()
		}()
	}
	return command.Run()
}

// told makes an exit code of the kind that the streaming packages look for.
func told(failure error) error {
	if exit, ok := errors.AsType[*exec.ExitError](failure); ok {
		return &utilexec.ExitErrorWrapper{ExitError: exit}
	}
	return failure
}
