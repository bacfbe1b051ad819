package main

import (
	"bufio"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	random "math/rand"
	"os"
	"strings"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
)

// This file makes tokens that no issuer would make, and has kube-apiserver's authenticators read them.

// tokenCase is one line of the output: a token, when it was read, and the user whom kube-apiserver sees in it.
type tokenCase struct {
	Issuer int       `json:"issuer"`
	Token  text      `json:"token"`
	What   []string  `json:"what"`
	Now    int64     `json:"now"`
	User   *userInfo `json:"user"`
	Error  string    `json:"error,omitempty"`
}

type signingKey struct {
	id      string
	private crypto.Signer
	// only is the algorithm that the key's set says it is for.
	only string
}

var algorithms = []string{
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "none", "rs256", "",
}

func fatal[T any](value T, err error) T {
	if err != nil {
		log.Fatalf("oracle: %v", err)
	}
	return value
}

func newKeys() []signingKey {
	curve := func(of elliptic.Curve) crypto.Signer { return fatal(ecdsa.GenerateKey(of, rand.Reader)) }
	numbers := func(bits int) crypto.Signer { return fatal(rsa.GenerateKey(rand.Reader, bits)) }
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		log.Fatalf("oracle: %v", err)
	}
	keys := []signingKey{
		{private: curve(elliptic.P256()), only: "ES256"}, {private: curve(elliptic.P256())},
		{private: curve(elliptic.P384())}, {private: curve(elliptic.P521())},
		{private: numbers(2048), only: "RS256"}, {private: numbers(2048)}, {private: numbers(3072)},
		{private: numbers(1024)}, {private: edwards},
	}
	for index := range keys {
		der := fatal(x509.MarshalPKIXPublicKey(keys[index].private.Public()))
		hash := sha256.Sum256(der)
		keys[index].id = base64.RawURLEncoding.EncodeToString(hash[:])
	}
	return keys
}

func publicSet(keys []signingKey) jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{}
	for _, key := range keys {
		public := jose.JSONWebKey{Key: key.private.Public(), KeyID: key.id, Algorithm: key.only, Use: "sig"}
		set.Keys = append(set.Keys, public)
	}
	return set
}

// printTokens prints the issuers, then a line for each token.
func printTokens(seed int64, count int) {
	dice := random.New(random.NewSource(seed))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	print := func(value any) {
		if err := encoder.Encode(value); err != nil {
			log.Fatalf("oracle: %v", err)
		}
	}
	keys, others := newKeys(), newKeys()
	issuers := []*tokenIssuer{
		{URL: "https://kubernetes.default.svc", Audiences: []string{"api", "other"}},
		{
			URL: "https://login.example.com", Audiences: []string{"client", "second"},
			Username: &prefixedClaim{"email", "login:"}, Groups: &prefixedClaim{"groups", "login:"},
			RequiredClaims: map[string]string{"hd": "example.com"},
		},
		{URL: "https://plain.example.com", Audiences: []string{"client"}, Username: &prefixedClaim{"sub", ""}},
	}
	var readers []tokenReader
	for _, issuer := range issuers {
		issuer.JWKS = publicSet(keys)
		readers = append(readers, issuer.reader())
	}
	print(issuers)
	for range count {
		index := dice.Intn(len(issuers))
		forged := forgeToken(dice, issuers, index, keys, others)
		answer := tokenCase{Issuer: index, Token: text(forged.token), What: forged.what, Now: time.Now().Unix()}
		user, err := readers[index](forged.token)
		answer.User = user
		if err != nil {
			answer.Error = err.Error()
		}
		print(answer)
	}
}

// member is a member of an object: it can stand twice. Both are JSON.
type member struct{ name, value string }

type forgedToken struct {
	header, claims []member
	algorithm      string
	key            signingKey
	signature      func([]byte) []byte
	finish         func(string) string
	what           []string
	token          string
}

func quoted(value any) string { return string(fatal(json.Marshal(value))) }

func object(members []member) string {
	var parts []string
	for _, one := range members {
		parts = append(parts, one.name+":"+one.value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func set(members []member, name, value string) []member {
	changed := append([]member(nil), members...)
	for index := range changed {
		if changed[index].name == quoted(name) {
			changed[index].value = value
			return changed
		}
	}
	return append(changed, member{quoted(name), value})
}

func without(members []member, name string) []member {
	var left []member
	for _, one := range members {
		if one.name != quoted(name) {
			left = append(left, one)
		}
	}
	return left
}

func pick[T any](dice *random.Rand, of []T) T { return of[dice.Intn(len(of))] }

func algorithmOf(dice *random.Rand, key signingKey) string {
	if key.only != "" {
		return key.only
	}
	switch public := key.private.Public().(type) {
	case *ecdsa.PublicKey:
		return map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[public.Curve.Params().BitSize]
	case *rsa.PublicKey:
		return pick(dice, algorithms[:6])
	default:
		return "EdDSA"
	}
}

func forgeToken(dice *random.Rand, issuers []*tokenIssuer, index int, keys, others []signingKey) *forgedToken {
	key := keys[0]
	if dice.Intn(3) == 0 {
		key = pick(dice, keys)
	}
	forged := &forgedToken{key: key, algorithm: algorithmOf(dice, key)}
	forged.header = []member{{`"alg"`, quoted(forged.algorithm)}, {`"kid"`, quoted(key.id)}}
	forged.claims = plainClaims(dice, issuers[index])
	for range pick(dice, []int{0, 0, 1, 1, 1, 2, 3}) {
		change := pick(dice, tokenChanges)
		forged.what = append(forged.what, change.name)
		change.apply(dice, forged, others)
	}
	signed := encoded(object(forged.header)) + "." + encoded(object(forged.claims))
	signature := sign(forged.key, forged.algorithm, []byte(signed))
	if forged.signature != nil {
		signature = forged.signature([]byte(signed))
	}
	forged.token = signed + "." + base64.RawURLEncoding.EncodeToString(signature)
	if forged.finish != nil {
		forged.token = forged.finish(forged.token)
	}
	return forged
}

func encoded(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func plainClaims(dice *random.Rand, issuer *tokenIssuer) []member {
	now := time.Now().Unix()
	claims := []member{
		{`"iss"`, quoted(issuer.URL)}, {`"aud"`, quoted(issuer.Audiences[:1])}, {`"iat"`, fmt.Sprint(now - 20)},
		{`"nbf"`, fmt.Sprint(now - 20)}, {`"exp"`, fmt.Sprint(now + 600)},
	}
	if dice.Intn(4) > 0 {
		claims = append(claims, member{`"jti"`, quoted(fmt.Sprintf("id-%d", dice.Int63()))})
	}
	if issuer.Username != nil {
		return append(claims,
			member{`"sub"`, `"alice"`}, member{`"email"`, `"alice@example.com"`}, member{`"email_verified"`, "true"},
			member{`"groups"`, `["dev","ops"]`}, member{`"hd"`, `"example.com"`})
	}
	namespace, name := pick(dice, []string{"shop", "kube-system"}), pick(dice, []string{"robot", "a.b"})
	object := map[string]any{"namespace": namespace, "serviceaccount": reference(name)}
	switch dice.Intn(5) {
	case 0:
	case 1:
		object["node"] = reference("n1")
	case 2:
		object["secret"] = reference("s1")
	case 3:
		object["pod"] = reference("p1")
	default:
		object["pod"], object["node"], object["warnafter"] = reference("p1"), reference("n1"), now+300
	}
	return append(claims,
		member{`"kubernetes.io"`, quoted(object)},
		member{`"sub"`, quoted("system:serviceaccount:" + namespace + ":" + name)})
}

func reference(name string) map[string]any {
	return map[string]any{"name": name, "uid": "uid-of-" + name}
}

func sign(key signingKey, algorithm string, signed []byte) []byte {
	hash := hashOf(algorithm)
	digest := sum(hash, signed)
	switch private := key.private.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, private, digest)
		if err != nil {
			log.Fatalf("oracle: %v", err)
		}
		size := (private.Curve.Params().BitSize + 7) / 8
		both := make([]byte, 2*size)
		r.FillBytes(both[:size])
		s.FillBytes(both[size:])
		return both
	case *rsa.PrivateKey:
		if strings.HasPrefix(algorithm, "PS") {
			options := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
			// A small key has no room for a large hash: an empty signature then.
			signature, _ := rsa.SignPSS(rand.Reader, private, hash, digest, options)
			return signature
		}
		return fatal(rsa.SignPKCS1v15(nil, private, hash, digest))
	default:
		return fatal(key.private.Sign(nil, signed, crypto.Hash(0)))
	}
}

func hashOf(algorithm string) crypto.Hash {
	switch {
	case strings.HasSuffix(algorithm, "384"):
		return crypto.SHA384
	case strings.HasSuffix(algorithm, "512"):
		return crypto.SHA512
	default:
		return crypto.SHA256
	}
}

func sum(hash crypto.Hash, text []byte) []byte {
	switch hash {
	case crypto.SHA384:
		digest := sha512.Sum384(text)
		return digest[:]
	case crypto.SHA512:
		digest := sha512.Sum512(text)
		return digest[:]
	default:
		digest := sha256.Sum256(text)
		return digest[:]
	}
}

// keyed signs by HMAC with what everybody knows: the oldest trick.
func keyed(key signingKey, signed []byte) []byte {
	der := fatal(x509.MarshalPKIXPublicKey(key.private.Public()))
	mac := hmac.New(sha256.New, der)
	mac.Write(signed)
	return mac.Sum(nil)
}
