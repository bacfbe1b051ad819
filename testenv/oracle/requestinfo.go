package main

import (
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/filters"
)

type requestInfoAnswer struct {
	// Error is why there is no answer: "target" where net/http's server answers 400, "info" where kube-apiserver gives up.
	Error         string `json:"error,omitempty"`
	IsResource    bool   `json:"isResource"`
	Verb          text   `json:"verb"`
	Path          text   `json:"path"`
	APIPrefix     text   `json:"apiPrefix"`
	APIGroup      text   `json:"apiGroup"`
	APIVersion    text   `json:"apiVersion"`
	Namespace     text   `json:"namespace"`
	Resource      text   `json:"resource"`
	Subresource   text   `json:"subresource"`
	Name          text   `json:"name"`
	FieldSelector text   `json:"fieldSelector"`
	LabelSelector text   `json:"labelSelector"`
	LongRunning   bool   `json:"longRunning"`
}

// As kube-apiserver is built: pkg/controlplane/apiserver/config.go.
var (
	factory = &request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	longRunning = filters.BasicLongRunningRequestCheck(
		sets.NewString("watch", "proxy"),
		sets.NewString("attach", "exec", "proxy", "log", "portforward"),
	)
)

// requestInfo reads a target as net/http's server does, and resolves it.
func requestInfo(asked *question) any {
	target, err := url.ParseRequestURI(string(asked.Target))
	if err != nil {
		return requestInfoAnswer{Error: "target"}
	}
	req := &http.Request{Method: string(asked.Method), URL: target, RequestURI: string(asked.Target), Header: http.Header{}}
	info, err := factory.NewRequestInfo(req)
	if err != nil {
		return requestInfoAnswer{Error: "info"}
	}
	return requestInfoAnswer{
		IsResource:    info.IsResourceRequest,
		Verb:          text(info.Verb),
		Path:          text(info.Path),
		APIPrefix:     text(info.APIPrefix),
		APIGroup:      text(info.APIGroup),
		APIVersion:    text(info.APIVersion),
		Namespace:     text(info.Namespace),
		Resource:      text(info.Resource),
		Subresource:   text(info.Subresource),
		Name:          text(info.Name),
		FieldSelector: text(info.FieldSelector),
		LabelSelector: text(info.LabelSelector),
		LongRunning:   longRunning(req, info),
	}
}
