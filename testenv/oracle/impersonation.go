package main

import (
	"context"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/transport"
)

type impersonationAnswer struct {
	// Code is the HTTP status of a refusal, else 0.
	Code int `json:"code"`
	// User is as whom the request acts: the client itself where nothing was asked for.
	User *userInfo `json:"user"`
	// Parts are what the client was to be allowed, of verb impersonate.
	Parts []part `json:"parts"`
	// Constrained is whether the filter knows constrained impersonation.
	Constrained bool `json:"constrained"`
}

type part struct {
	Group       text `json:"group"`
	Resource    text `json:"resource"`
	Subresource text `json:"subresource"`
	Namespace   text `json:"namespace"`
	Name        text `json:"name"`
}

func errorCodecs() runtime.NegotiatedSerializer {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme).WithoutConversion()
}

var codecs = errorCodecs()

// granted decides by a hash of the attributes, for constrained impersonation alone; the test computes the same hash. Nothing is
// granted for all names at once.
func granted(seed string, a authorizer.Attributes) bool {
	if a.GetVerb() == "impersonate" || a.GetName() == "*" {
		return false
	}
	hash := fnv.New64a()
	for _, part := range []string{seed, a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName()} {
		_, _ = hash.Write([]byte(part + "\x00"))
	}
	return hash.Sum64()%8 != 0
}

// impersonate runs kube-apiserver's filter: with a seed for a client with some constrained grants, else for one who may do
// everything of the unconstrained kind.
func impersonate(asked *question) any {
	answer := impersonationAnswer{Parts: []part{}, Constrained: knowsConstrained}
	may := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if asked.Seed != "" {
			if granted(asked.Seed, a) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		}
		if strings.HasPrefix(a.GetVerb(), "impersonate:") || strings.HasPrefix(a.GetVerb(), "impersonate-on:") {
			return authorizer.DecisionNoOpinion, "", nil
		}
		answer.Parts = append(answer.Parts, part{
			Group:       text(a.GetAPIGroup()),
			Resource:    text(a.GetResource()),
			Subresource: text(a.GetSubresource()),
			Namespace:   text(a.GetNamespace()),
			Name:        text(a.GetName()),
		})
		return authorizer.DecisionAllow, "", nil
	})
	reached := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if acting, ok := request.UserFrom(req.Context()); ok {
			answer.User = toldUser(acting)
		}
	})
	client := &user.DefaultInfo{Name: "client", Groups: []string{user.AllAuthenticated}}
	ctx := request.WithRequestInfo(request.WithUser(context.Background(), client), &request.RequestInfo{
		IsResourceRequest: true, Verb: "get", APIVersion: "v1", Namespace: "n", Resource: "pods", Name: "a",
	})
	req := (&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/api/v1/pods/a"}, Header: header(asked.Headers)}).WithContext(ctx)
	writer := httptest.NewRecorder()
	withImpersonation(reached, may, codecs).ServeHTTP(writer, req)
	if answer.User == nil {
		answer.Code = writer.Code
	}
	return answer
}

func toldUser(info user.Info) *userInfo {
	return &userInfo{
		Name: text(info.GetName()), UID: text(info.GetUID()), Groups: texts(info.GetGroups()), Extra: extras(info.GetExtra()),
	}
}

type identityAnswer struct {
	Lines [][2]text `json:"lines"`
}

type recorder struct{ headers http.Header }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.headers = req.Header
	return nil, http.ErrAbortHandler
}

// identity tells which lines client-go writes for a user, in no order over names.
func identity(asked *question) any {
	acting := transport.ImpersonationConfig{
		UserName: string(asked.User.Name), UID: string(asked.User.UID), Groups: plain(asked.User.Groups),
		Extra: map[string][]string{},
	}
	for _, item := range asked.User.Extra {
		acting.Extra[string(item.Key)] = append(acting.Extra[string(item.Key)], plain(item.Values)...)
	}
	told := &recorder{}
	req := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: http.Header{}}
	_, _ = transport.NewImpersonatingRoundTripper(acting, told).RoundTrip(req)
	answer := identityAnswer{Lines: [][2]text{}}
	for name, values := range told.headers {
		for _, value := range values {
			answer.Lines = append(answer.Lines, [2]text{text(name), text(value)})
		}
	}
	return answer
}
