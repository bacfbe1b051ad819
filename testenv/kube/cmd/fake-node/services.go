package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Every pod offers the same: what is sent to port 7 comes back, and port 8080 tells of the HTTP request that it got.
var services = sync.OnceValue(func() map[string]door {
	return map[string]door{"7": echo, "8080": httpDoor(http.HandlerFunc(mirror))}
})

func echo(conn net.Conn) {
	defer conn.Close()
	_, _ = io.Copy(conn, conn)
}

func httpDoor(handler http.Handler) door {
	listener := newHandedOver()
	go func() { log.Fatal(http.Serve(listener, handler)) }()
	return listener.handOver
}

// mirror tells method, target and headers, a line each; an upgrade becomes an echo.
func mirror(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			log.Printf("taking over a connection: %v", err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n",
			r.Header.Get("Upgrade"))
		_, _ = io.Copy(conn, buffered)
		return
	}
	lines := []string{}
	for name, values := range r.Header {
		for _, value := range values {
			lines = append(lines, fmt.Sprintf("%s: %s\n", name, value))
		}
	}
	slices.Sort(lines)
	fmt.Fprintf(w, "%s %s\n%s", r.Method, r.URL.RequestURI(), strings.Join(lines, ""))
}

// forwarder is where port-forward ends: at the pod's services, without a network between.
type forwarder struct{ services map[string]door }

func (f forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	behind, known := f.services[strconv.Itoa(int(port))]
	if !known {
		return fmt.Errorf("nobody listens on port %d", port)
	}
	here, there, err := pair()
	if err != nil {
		return err
	}
	defer here.Close()
	stop := context.AfterFunc(ctx, func() { here.Close() })
	defer stop()
	go behind(there)
	go func() {
		_, _ = io.Copy(here, stream)
		// There may be an answer still.
		_ = here.CloseWrite()
	}()
	_, err = io.Copy(stream, here)
	return err
}

// pair gives both ends of a connection.
func pair() (*net.UnixConn, *net.UnixConn, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a pair of sockets: %w", err)
	}
	var made [2]*net.UnixConn
	for number, end := range ends {
		file := os.NewFile(uintptr(end), "pair")
		conn, err := net.FileConn(file)
		file.Close()
		if err != nil {
			return nil, nil, fmt.Errorf("using a pair of sockets: %w", err)
		}
		made[number] = conn.(*net.UnixConn)
	}
	return made[0], made[1], nil
}
