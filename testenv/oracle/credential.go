package main

import (
	"context"
	"net/http"
	"net/textproto"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/user"
)

type credentialAnswer struct {
	// Bearer is the token of Authorization, Subprotocol that of Sec-WebSocket-Protocol.
	Bearer      presented `json:"bearer"`
	Subprotocol presented `json:"subprotocol"`
	// Remaining is Sec-WebSocket-Protocol as it is after a token of it was believed.
	Remaining text `json:"remaining"`
}

type presented struct {
	Token *text `json:"token"`
	Error bool  `json:"error"`
}

// header reads lines as net/http's server keeps them.
func header(lines [][2]text) http.Header {
	headers := http.Header{}
	for _, line := range lines {
		name := textproto.CanonicalMIMEHeaderKey(string(line[0]))
		headers[name] = append(headers[name], string(line[1]))
	}
	return headers
}

// credential tells which tokens a request presents, by an authenticator that believes every one.
func credential(asked *question) any {
	var seen *text
	believe := authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		told := text(token)
		seen = &told
		return &authenticator.Response{User: &user.DefaultInfo{Name: "somebody"}}, true, nil
	})
	present := func(by authenticator.Request) (presented, *http.Request) {
		seen = nil
		req := &http.Request{Method: http.MethodGet, Header: header(asked.Headers)}
		_, _, err := by.AuthenticateRequest(req)
		return presented{Token: seen, Error: err != nil}, req
	}
	bearer, _ := present(bearertoken.New(believe))
	subprotocol, left := present(websocket.NewProtocolAuthenticator(believe))
	return credentialAnswer{
		Bearer:      bearer,
		Subprotocol: subprotocol,
		Remaining:   text(left.Header.Get("Sec-Websocket-Protocol")),
	}
}
