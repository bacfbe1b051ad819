package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/group"
	authenticator "k8s.io/apiserver/pkg/authentication/request/x509"
)

type certificateAnswer struct {
	User *userInfo `json:"user"`
	// Error is why the certificate fails; without it and without a user it says nothing.
	Error string `json:"error,omitempty"`
}

// certificate authenticates a chain as kube-apiserver does: parsed as in the handshake, verified per request.
func certificate(asked *question) any {
	chain, err := parse(asked.Certificates)
	if err != nil {
		return certificateAnswer{Error: "handshake: " + err.Error()}
	}
	roots, err := parse(asked.Roots)
	if err != nil {
		return certificateAnswer{Error: "roots: " + err.Error()}
	}
	options := authenticator.DefaultVerifyOptions()
	options.Roots = x509.NewCertPool()
	for _, root := range roots {
		options.Roots.AddCert(root)
	}
	options.CurrentTime = time.Unix(asked.Now, 0)
	by := group.NewAuthenticatedGroupAdder(authenticator.New(options, authenticator.CommonNameUserConversion))
	req := &http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{PeerCertificates: chain}}
	response, ok, err := by.AuthenticateRequest(req)
	if err != nil {
		return certificateAnswer{Error: err.Error()}
	}
	if !ok {
		return certificateAnswer{}
	}
	return certificateAnswer{User: toldUser(response.User)}
}

func parse(ders [][]byte) ([]*x509.Certificate, error) {
	all := make([]*x509.Certificate, 0, len(ders))
	for _, der := range ders {
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		all = append(all, parsed)
	}
	return all, nil
}
