// Command fake-node is a node for tests: the kubelet's streaming endpoints, served by the packages that the kubelet and
// container runtimes serve them with, in front of ordinary local processes. There are no containers: each pod is a
// directory, in which its main process and whatever is executed run as the user who started this program.
//
// kube-apiserver reaches it as it reaches a remote network, by HTTP CONNECT on a Unix socket (its egress selector). So
// node and pods have an address that no machine has, kube-apiserver agrees to proxy to it, and nothing listens on a port.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

type options struct {
	socket, directory, address string
	certificate, key, clientCA string
	mainProcess                []string
}

func main() {
	log.SetFlags(log.Lmicroseconds)
	o := options{}
	flag.StringVar(&o.socket, "socket", "", "Unix socket for kube-apiserver's CONNECT requests")
	flag.StringVar(&o.directory, "directory", "", "where pods have their directories")
	flag.StringVar(&o.address, "address", "", "host:port of the kubelet; pods have the same host")
	flag.StringVar(&o.certificate, "tls-cert-file", "", "the node's certificate")
	flag.StringVar(&o.key, "tls-private-key-file", "", "the node's key")
	flag.StringVar(&o.clientCA, "client-ca-file", "", "who signs kube-apiserver's client certificate")
	flag.Parse()
	o.mainProcess = flag.Args()
	if err := serve(o); err != nil {
		log.Fatal(err)
	}
}

func serve(o options) error {
	if len(o.mainProcess) == 0 {
		return errors.New("the command of the pods' main process is missing")
	}
	host, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return fmt.Errorf("-address: %w", err)
	}
	secured, err := serverTLS(o)
	if err != nil {
		return err
	}
	kubelet := &kubelet{containers: newContainers(o.directory, o.mainProcess)}
	doors := map[string]door{
		o.address: secured.door(&http.Server{Handler: kubelet.routes(), ConnContext: withEnd}),
	}
	for port, behind := range services() {
		doors[net.JoinHostPort(host, port)] = behind
	}
	listener, err := net.Listen("unix", o.socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	return http.Serve(listener, tunnels(doors))
}

type tlsSettings struct{ *tls.Config }

func serverTLS(o options) (tlsSettings, error) {
	pair, err := tls.LoadX509KeyPair(o.certificate, o.key)
	if err != nil {
		return tlsSettings{}, fmt.Errorf("reading the node's certificate: %w", err)
	}
	pem, err := os.ReadFile(o.clientCA)
	if err != nil {
		return tlsSettings{}, fmt.Errorf("reading the clients' authority: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(pem) {
		return tlsSettings{}, errors.New("the clients' authority holds no certificate")
	}
	return tlsSettings{&tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientCAs:    clients,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		NextProtos:   []string{"h2", "http/1.1"},
	}}, nil
}

// door serves connections by an HTTP server, over TLS.
func (s tlsSettings) door(server *http.Server) door {
	listener := newHandedOver()
	server.TLSConfig = s.Config
	go func() { log.Fatal(server.ServeTLS(listener, "", "")) }()
	return listener.handOver
}
