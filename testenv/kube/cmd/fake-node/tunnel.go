package main

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
)

// door takes a connection that was made to one address, and owns it from then on.
type door func(net.Conn)

// tunnels answers CONNECT: the connection goes on behind the door of that address.
func tunnels(doors map[string]door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		behind, known := doors[r.Host]
		if r.Method != http.MethodConnect || !known {
			log.Printf("nobody is at %s", r.Host)
			http.Error(w, "connection refused", http.StatusBadGateway)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			log.Printf("taking over a connection to %s: %v", r.Host, err)
			return
		}
		// The other side speaks only after this.
		if _, err := conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
			conn.Close()
			return
		}
		behind(&noticed{Conn: conn})
	})
}

// handedOver is a listener for connections that came in elsewhere.
type handedOver struct{ conns chan net.Conn }

func newHandedOver() *handedOver { return &handedOver{conns: make(chan net.Conn)} }

func (l *handedOver) handOver(conn net.Conn)    { l.conns <- conn }
func (l *handedOver) Accept() (net.Conn, error) { return <-l.conns, nil }
func (l *handedOver) Close() error              { return nil }
func (l *handedOver) Addr() net.Addr            { return &net.UnixAddr{Name: "handed over", Net: "unix"} }

// noticed is a connection whose end ends a context, also while it is used for something other than HTTP.
type noticed struct {
	net.Conn
	// Set before anything is read.
	end context.CancelFunc
}

// withEnd is a server's ConnContext: what is done for a connection ends with it.
func withEnd(ctx context.Context, conn net.Conn) context.Context {
	if secured, isTLS := conn.(*tls.Conn); isTLS {
		conn = secured.NetConn()
	}
	watched, ok := conn.(*noticed)
	if !ok {
		return ctx
	}
	ctx, watched.end = context.WithCancel(ctx)
	return ctx
}

func (n *noticed) Read(buffer []byte) (int, error) {
	count, err := n.Conn.Read(buffer)
	if timeout, isNet := err.(net.Error); err != nil && !(isNet && timeout.Timeout()) {
		n.over()
	}
	return count, err
}

func (n *noticed) Close() error {
	n.over()
	return n.Conn.Close()
}

func (n *noticed) over() {
	if n.end != nil {
		n.end()
	}
}
