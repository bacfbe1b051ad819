package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"strings"

	oidclib "github.com/coreos/go-oidc"
	jose "gopkg.in/go-jose/go-jose.v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// tokenIssuer is what a token is judged by. Without mappings its tokens are those of service accounts.
type tokenIssuer struct {
	URL            string             `json:"url"`
	Audiences      []string           `json:"audiences"`
	JWKS           jose.JSONWebKeySet `json:"jwks"`
	Username       *prefixedClaim     `json:"username"`
	Groups         *prefixedClaim     `json:"groups"`
	RequiredClaims map[string]string  `json:"requiredClaims"`
}

type prefixedClaim struct {
	Claim  string `json:"claim"`
	Prefix string `json:"prefix"`
}

// tokenReader is kube-apiserver's way from a request with a token to a user.
type tokenReader func(token string) (*userInfo, error)

func (issuer *tokenIssuer) reader() tokenReader {
	if issuer.Username == nil {
		return func(token string) (*userInfo, error) { return read(issuer.serviceAccounts(token), token) }
	}
	users := issuer.users()
	return func(token string) (*userInfo, error) { return read(users, token) }
}

func read(by authenticator.Token, token string) (*userInfo, error) {
	requests := group.NewAuthenticatedGroupAdder(bearertoken.New(by))
	req := &http.Request{Method: http.MethodGet, Header: http.Header{"Authorization": {"Bearer " + token}}}
	answer, ok, err := requests.AuthenticateRequest(req)
	if err != nil || !ok {
		return nil, err
	}
	known := answer.User
	return &userInfo{
		Name: text(known.GetName()), UID: text(known.GetUID()), Groups: texts(known.GetGroups()),
		Extra: extras(known.GetExtra()),
	}, nil
}

// serviceAccounts is the authenticator of an apiserver in which everything exists that the token is bound to.
func (issuer *tokenIssuer) serviceAccounts(token string) authenticator.Token {
	return serviceaccount.JWTTokenAuthenticator(
		[]string{issuer.URL}, &keysOf{issuer.JWKS}, authenticator.Audiences(issuer.Audiences),
		serviceaccount.NewValidator(claimed(token)),
	)
}

// keysOf gives keys as kube-apiserver's own getter does: by the id, or all.
type keysOf struct{ set jose.JSONWebKeySet }

func (keys *keysOf) AddListener(serviceaccount.Listener) {}
func (keys *keysOf) GetCacheAgeMaxSeconds() int          { return 3600 }
func (keys *keysOf) GetPublicKeys(_ context.Context, id string) []serviceaccount.PublicKey {
	var found []serviceaccount.PublicKey
	for _, key := range keys.set.Keys {
		if id == "" || key.KeyID == id {
			found = append(found, serviceaccount.PublicKey{KeyID: key.KeyID, PublicKey: key.Key})
		}
	}
	return found
}

// bound are the UIDs that a token names.
type bound struct {
	Account, Pod, Node, Secret struct {
		UID string `json:"uid"`
	}
}

func claimed(token string) *bound {
	objects := &bound{}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return objects
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return objects
	}
	claims := map[string]json.RawMessage{}
	_ = json.Unmarshal(payload, &claims)
	members := map[string]json.RawMessage{}
	_ = json.Unmarshal(claims["kubernetes.io"], &members)
	_ = json.Unmarshal(members["serviceaccount"], &objects.Account)
	_ = json.Unmarshal(members["pod"], &objects.Pod)
	_ = json.Unmarshal(members["node"], &objects.Node)
	_ = json.Unmarshal(members["secret"], &objects.Secret)
	return objects
}

func meta(namespace, name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
}

func (objects *bound) GetServiceAccount(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return &corev1.ServiceAccount{ObjectMeta: meta(namespace, name, objects.Account.UID)}, nil
}

func (objects *bound) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	return &corev1.Pod{ObjectMeta: meta(namespace, name, objects.Pod.UID)}, nil
}

func (objects *bound) GetSecret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return &corev1.Secret{ObjectMeta: meta(namespace, name, objects.Secret.UID)}, nil
}

func (objects *bound) GetNode(_ context.Context, name string) (*corev1.Node, error) {
	return &corev1.Node{ObjectMeta: meta("", name, objects.Node.UID)}, nil
}

// users is the authenticator of an AuthenticationConfiguration.
func (issuer *tokenIssuer) users() authenticator.Token {
	mapping := func(claim *prefixedClaim) apiserver.PrefixedClaimOrExpression {
		if claim == nil {
			return apiserver.PrefixedClaimOrExpression{}
		}
		return apiserver.PrefixedClaimOrExpression{Claim: claim.Claim, Prefix: &claim.Prefix}
	}
	config := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{
			URL: issuer.URL, Audiences: issuer.Audiences, AudienceMatchPolicy: apiserver.AudienceMatchPolicyMatchAny,
		},
		ClaimMappings: apiserver.ClaimMappings{Username: mapping(issuer.Username), Groups: mapping(issuer.Groups)},
	}
	for claim, value := range issuer.RequiredClaims {
		rule := apiserver.ClaimValidationRule{Claim: claim, RequiredValue: value}
		config.ClaimValidationRules = append(config.ClaimValidationRules, rule)
	}
	users, err := oidc.New(context.Background(), oidc.Options{
		JWTAuthenticator:     config,
		KeySet:               keySet{issuer.JWKS},
		SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(),
	})
	if err != nil {
		log.Fatalf("oracle: the issuer's configuration is refused: %v", err)
	}
	return users
}

// keySet verifies as go-oidc does by keys that it has fetched (jwks.go): those of the token's key id, or all.
type keySet struct{ set jose.JSONWebKeySet }

func (keys keySet) VerifySignature(_ context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSigned(token)
	if err != nil {
		return nil, err
	}
	id := signed.Signatures[0].Header.KeyID
	for _, key := range keys.set.Keys {
		if id == "" || key.KeyID == id {
			if payload, err := signed.Verify(&key); err == nil {
				return payload, nil
			}
		}
	}
	return nil, errors.New("no key verifies it")
}

var _ oidclib.KeySet = keySet{}
