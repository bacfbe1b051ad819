package main

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	random "math/rand"
	"strings"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
)

type tokenChange struct {
	name  string
	apply func(*random.Rand, *forgedToken, []signingKey)
}

// values are what a claim can be instead.
var values = []string{
	"null", "true", "false", "0", "-1", "1.5", "1e9", "1e30", "18446744073709551616", `""`, `" "`, `"x"`, `"true"`, "[]", "{}",
	`["x"]`, `["dev",1]`, `[["dev"]]`, `{"a":{}}`, `"system:masters"`, `["system:masters"]`, `"api"`, `["client","api"]`,
	`"login:x"`, `"\u0000"`, `"a\nb"`, `"\ud800"`, `"é"`, `"other.example.com"`, `"https://kubernetes.default.svc"`,
	`"https://login.example.com"`, `"system:serviceaccount:kube-system:robot"`, `"system:serviceaccount:shop:robot"`, `"false"`,
	`{"namespace":"shop","serviceaccount":{"name":"robot","uid":"u"}}`,
	`{"namespace":"shop:x","serviceaccount":{"name":"robot","uid":"u"}}`,
	`{"namespace":"shop","serviceaccount":{"name":"robot"}}`, `{"namespace":"shop","serviceaccount":{"name":"","uid":"u"}}`,
	`{"namespace":"shop","serviceaccount":{"name":"robot","uid":"u"},"pod":{"name":"p"}}`,
	`{"namespace":"shop","serviceaccount":{"name":"robot","uid":"u"},"pod":null}`,
	`{"namespace":"shop","serviceaccount":{"name":"robot","uid":"u"},"node":{"name":"n"}}`,
	`{"Namespace":"x","namespace":"shop","serviceaccount":{"name":"robot","uid":"u","UID":"v"}}`,
	`{"namespace":"shop","namespace":"kube-system","serviceaccount":{"name":"robot","uid":"u"}}`,
	`{"namespace":"shop","serviceaccount":{"name":"robot","uid":"u"},"warnafter":"x"}`,
}

var names = []string{
	"iss", "sub", "aud", "exp", "iat", "nbf", "jti", "email", "email_verified", "groups", "hd", "kubernetes.io", "nonce",
	"at_hash", "_claim_names", "_claim_sources", "other",
}

// lookAlikes are spellings by which some parser finds a claim.
func lookAlike(dice *random.Rand, name string) string {
	switch dice.Intn(4) {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return strings.ToUpper(name[:1]) + name[1:]
	case 2:
		return strings.Replace(name, "s", "\u017f", 1)
	default:
		return strings.Replace(name, "k", "\u212a", 1)
	}
}

var tokenChanges = []tokenChange{
	{"another value of a claim", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.claims = set(forged.claims, pick(dice, names), pick(dice, values))
	}},
	{"another value of a claim again", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.claims = set(forged.claims, pick(dice, names), pick(dice, values))
	}},
	{"a claim less", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.claims = without(forged.claims, pick(dice, names))
	}},
	{"a claim twice", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.claims = append(forged.claims, member{quoted(pick(dice, names)), pick(dice, values)})
	}},
	{"a claim twice, the other one in front", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.claims = append([]member{{quoted(pick(dice, names)), pick(dice, values)}}, forged.claims...)
	}},
	{"a claim in other letters", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		name := quoted(lookAlike(dice, pick(dice, names)))
		forged.claims = append(forged.claims, member{name, pick(dice, values)})
	}},
	{"a claim in other letters only", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		at := dice.Intn(len(forged.claims))
		name := strings.Trim(forged.claims[at].name, `"`)
		changed := append([]member(nil), forged.claims...)
		changed[at].name = quoted(lookAlike(dice, name))
		forged.claims = changed
	}},
	{"an escaped name", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		at := dice.Intn(len(forged.claims))
		name := strings.Trim(forged.claims[at].name, `"`)
		changed := append([]member(nil), forged.claims...)
		changed[at].name = fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
		forged.claims = changed
	}},
	{"another time", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		offset := pick(dice, []int64{-90, -70, -50, -30, 30, 50, 70, 90, 100000, -100000})
		name := pick(dice, []string{"exp", "iat", "nbf"})
		forged.claims = set(forged.claims, name, fmt.Sprint(time.Now().Unix()+offset))
	}},
	{"a time that is no integer", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		name := pick(dice, []string{"exp", "iat", "nbf"})
		shape := pick(dice, []string{"%d.9", "%de0", "%d.0", `"%d"`, "%d000000000000", "-%d"})
		forged.claims = set(forged.claims, name, fmt.Sprintf(shape, time.Now().Unix()+pick(dice, []int64{-30, 30})))
	}},
	{"another algorithm in the header", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.header = set(forged.header, "alg", quoted(pick(dice, algorithms)))
	}},
	{"signed by another algorithm, too", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.algorithm = pick(dice, algorithms)
		forged.header = set(forged.header, "alg", quoted(forged.algorithm))
	}},
	{"another header", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		extra := pick(dice, []member{
			{`"crit"`, `["exp"]`}, {`"crit"`, `["b64"]`}, {`"crit"`, `[]`}, {`"b64"`, "false"}, {`"b64"`, "true"}, {`"typ"`, `"JWT"`},
			{`"typ"`, `"at+jwt"`}, {`"typ"`, "1"}, {`"cty"`, `"JWT"`}, {`"x5t"`, `"abc"`}, {`"x5t#S256"`, `"abc"`}, {`"x5t"`, "{}"},
			{`"jwk"`, "{}"}, {`"x5c"`, `["AAAA"]`}, {`"jku"`, `"https://x"`}, {`"nonce"`, `"x"`}, {`"nonce"`, "1"}, {`"kid"`, `"x"`},
			{`"kid"`, "1"}, {`"kid"`, `""`}, {`"alg"`, `"none"`}, {`"ALG"`, `"none"`}, {`"zip"`, `"DEF"`}, {`"iss"`, `"x"`},
		})
		forged.header = append(forged.header, extra)
	}},
	{"no key id", func(_ *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.header = without(forged.header, "kid")
	}},
	{"key id of a key that is none", func(dice *random.Rand, forged *forgedToken, others []signingKey) {
		forged.header = set(forged.header, "kid", quoted(pick(dice, others).id))
	}},
	{"the sender's own key in the header", func(dice *random.Rand, forged *forgedToken, others []signingKey) {
		forged.key = others[0]
		own := jose.JSONWebKey{Key: others[0].private.Public(), KeyID: others[0].id}
		forged.header = append(forged.header, member{`"jwk"`, quoted(own)})
	}},
	{"signature of a stranger", func(dice *random.Rand, forged *forgedToken, others []signingKey) {
		forged.key = pick(dice, others)
	}},
	{"signature by the public key", func(_ *random.Rand, forged *forgedToken, _ []signingKey) {
		key := forged.key
		forged.header = set(forged.header, "alg", `"HS256"`)
		forged.signature = func(signed []byte) []byte { return keyed(key, signed) }
	}},
	{"no signature", func(_ *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.signature = func([]byte) []byte { return nil }
	}},
	{"signature of zeros", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		length := pick(dice, []int{64, 96, 256})
		forged.signature = func([]byte) []byte { return make([]byte, length) }
	}},
	{"signature in DER", func(_ *random.Rand, forged *forgedToken, _ []signingKey) {
		key, algorithm := forged.key, forged.algorithm
		forged.signature = func(signed []byte) []byte {
			raw := sign(key, algorithm, signed)
			half := len(raw) / 2
			pair := struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:half]), new(big.Int).SetBytes(raw[half:])}
			return fatal(asn1.Marshal(pair))
		}
	}},
	{"signature with another salt or sign", func(_ *random.Rand, forged *forgedToken, _ []signingKey) {
		key, algorithm := forged.key, forged.algorithm
		forged.signature = func(signed []byte) []byte { return oddSignature(key, algorithm, signed) }
	}},
	{"a byte of the token", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.finish = func(token string) string {
			bytes := []byte(token)
			bytes[dice.Intn(len(bytes))] = "ABCDxyz019-_.=+/ "[dice.Intn(17)]
			return string(bytes)
		}
	}},
	{"spare bits at the end of a part", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		which := dice.Intn(3)
		forged.finish = func(token string) string {
			parts := strings.Split(token, ".")
			if len(parts) != 3 || len(parts[which]) == 0 || len(parts[which])%4 == 0 {
				return token
			}
			last := len(parts[which]) - 1
			const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
			at := strings.IndexByte(alphabet, parts[which][last])
			parts[which] = parts[which][:last] + string(alphabet[at^1])
			return strings.Join(parts, ".")
		}
	}},
	{"padding", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.finish = func(token string) string {
			return pick(dice, []string{token + "=", token + ".", "." + token, strings.Replace(token, ".", "=.", 1), token + ".e30"})
		}
	}},
	{"standard base64", func(_ *random.Rand, forged *forgedToken, _ []signingKey) {
		forged.finish = func(token string) string {
			parts := strings.Split(token, ".")
			for index, part := range parts {
				if bytes, err := base64.RawURLEncoding.DecodeString(part); err == nil {
					parts[index] = base64.RawStdEncoding.EncodeToString(bytes)
				}
			}
			return strings.Join(parts, ".")
		}
	}},
	{"something behind the claims", func(dice *random.Rand, forged *forgedToken, _ []signingKey) {
		last := len(forged.claims) - 1
		changed := append([]member(nil), forged.claims...)
		changed[last].value += pick(dice, []string{"}", " ", "}{}", ",", "}x", "\n"})
		forged.claims = changed
	}},
}

func oddSignature(key signingKey, algorithm string, signed []byte) []byte {
	switch private := key.private.(type) {
	case *rsa.PrivateKey:
		if strings.HasPrefix(algorithm, "PS") {
			hash := hashOf(algorithm)
			options := &rsa.PSSOptions{SaltLength: 20}
			signature, _ := rsa.SignPSS(rand.Reader, private, hash, sum(hash, signed), options)
			return signature
		}
		return append([]byte{0}, sign(key, algorithm, signed)...)
	case *ecdsa.PrivateKey:
		// The other number of the pair that verifies.
		raw := sign(key, algorithm, signed)
		half := len(raw) / 2
		other := new(big.Int).Sub(private.Curve.Params().N, new(big.Int).SetBytes(raw[half:]))
		other.FillBytes(raw[half:])
		return raw
	default:
		return sign(key, algorithm, signed)
	}
}
