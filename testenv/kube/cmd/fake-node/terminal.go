package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// onTerminal runs a command on a terminal of its own, whose size follows the client's.
func onTerminal(command *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	master, slave, err := openTerminal()
	if err != nil {
		return err
	}
	defer master.Close()
	command.Stdin, command.Stdout, command.Stderr = slave, slave, slave
	command.SysProcAttr.Setpgid = false
	command.SysProcAttr.Setsid, command.SysProcAttr.Setctty = true, true
	err = command.Start()
	slave.Close()
	if err != nil {
		return err
	}
	if in != nil {
		go func() { _, _ = io.Copy(master, in) }()
	}
	go func() {
		for size := range resize {
			wanted := &unix.Winsize{Row: size.Height, Col: size.Width}
			_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, wanted)
		}
	}()
	copied := make(chan struct{})
	go func() {
		// Ends with an error when nobody holds the other end any more.
		_, _ = io.Copy(out, master)
		close(copied)
	}()
	err = command.Wait()
	<-copied
	return err
}

func openTerminal() (*os.File, *os.File, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("unlocking a terminal: %w", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("opening a terminal's other end: %w", err)
	}
	return master, slave, nil
}
