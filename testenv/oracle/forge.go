package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"log"
	"time"
)

// This file makes certificates that no library would make: every part of one can be wrong.

// forged is a certificate before it is signed. Raw parts are DER.
type forged struct {
	version    int
	serial     []byte
	subject    []byte
	issuer     []byte
	notBefore  []byte
	notAfter   []byte
	key        crypto.Signer
	extensions []pkix.Extension
	// scheme signs this certificate; its issuer's default where empty.
	scheme string
	// outer is the algorithm that stands outside, where it is not the one inside.
	outer string
	// finish changes the signed bytes.
	finish func([]byte) []byte
}

type scheme struct {
	oid    asn1.ObjectIdentifier
	params []byte
	hash   crypto.Hash
	pss    bool
}

var null = []byte{5, 0}

var schemes = map[string]scheme{
	"ecdsa-sha1":   {asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 1}, nil, crypto.SHA1, false},
	"ecdsa-sha256": {asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}, nil, crypto.SHA256, false},
	"ecdsa-sha384": {asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3}, nil, crypto.SHA384, false},
	"ecdsa-sha512": {asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 4}, nil, crypto.SHA512, false},
	"rsa-sha1":     {asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 5}, null, crypto.SHA1, false},
	"rsa-sha256":   {asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, null, crypto.SHA256, false},
	"rsa-sha384":   {asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 12}, null, crypto.SHA384, false},
	"rsa-sha512":   {asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 13}, null, crypto.SHA512, false},
	"pss-sha256":   {asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}, pssParameters(1, 32), crypto.SHA256, true},
	"pss-sha384":   {asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}, pssParameters(2, 48), crypto.SHA384, true},
	"pss-sha512":   {asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}, pssParameters(3, 64), crypto.SHA512, true},
	"ed25519":      {asn1.ObjectIdentifier{1, 3, 101, 112}, nil, 0, false},
}

// pssParameters are those of RFC 4055 for SHA-2 of NIST's arc.
func pssParameters(hash, salt int) []byte {
	algorithm := element(0x30, marshal(asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, hash}), null)
	mask := element(0x30, marshal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 8}), algorithm)
	return element(0x30, element(0xa0, algorithm), element(0xa1, mask), element(0xa2, marshal(salt)))
}

var keys = map[string]crypto.Signer{}

// keyOf makes a key of a kind; number tells keys of one kind apart.
func keyOf(kind string, number int) crypto.Signer {
	name := kind + string(rune('a'+number))
	if key, ok := keys[name]; ok {
		return key
	}
	keys[name] = newKey(kind)
	return keys[name]
}

func newKey(kind string) crypto.Signer {
	curves := map[string]elliptic.Curve{
		"p224": elliptic.P224(), "p256": elliptic.P256(), "p384": elliptic.P384(), "p521": elliptic.P521(),
	}
	sizes := map[string]int{"rsa1024": 1024, "rsa1536": 1536, "rsa2048": 2048, "rsa3072": 3072}
	if curve, ok := curves[kind]; ok {
		return must(ecdsa.GenerateKey(curve, rand.Reader))
	}
	if size, ok := sizes[kind]; ok {
		return must(rsa.GenerateKey(rand.Reader, size))
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		log.Fatalf("oracle: %v", err)
	}
	return key
}

func defaultScheme(key crypto.Signer) string {
	switch key.(type) {
	case *rsa.PrivateKey:
		return "rsa-sha256"
	case ed25519.PrivateKey:
		return "ed25519"
	default:
		return "ecdsa-sha256"
	}
}

func algorithm(name string) []byte {
	s := schemes[name]
	return element(0x30, marshal(s.oid), s.params)
}

// sign writes the certificate, signed by a key.
func (f *forged) sign(by crypto.Signer) []byte {
	name := f.scheme
	if name == "" {
		name = defaultScheme(by)
	}
	var version, extensions []byte
	if f.version > 0 {
		version = element(0xa0, marshal(f.version))
	}
	if f.extensions != nil {
		extensions = element(0xa3, marshal(f.extensions))
	}
	spki := must(x509.MarshalPKIXPublicKey(f.key.Public()))
	validity := element(0x30, f.notBefore, f.notAfter)
	tbs := element(0x30, version, element(2, f.serial), algorithm(name), f.issuer, validity, f.subject, spki, extensions)
	outer := name
	if f.outer != "" {
		outer = f.outer
	}
	der := element(0x30, tbs, algorithm(outer), element(3, []byte{0}, signature(by, schemes[name], tbs)))
	if f.finish != nil {
		der = f.finish(der)
	}
	return der
}

func signature(by crypto.Signer, s scheme, tbs []byte) []byte {
	digest := tbs
	if s.hash != 0 {
		hash := s.hash.New()
		hash.Write(tbs)
		digest = hash.Sum(nil)
	}
	var options crypto.SignerOpts = s.hash
	if s.pss {
		options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: s.hash}
	}
	return must(by.Sign(rand.Reader, digest, options))
}

func element(tag byte, contents ...[]byte) []byte {
	var content []byte
	for _, part := range contents {
		content = append(content, part...)
	}
	length := []byte{byte(len(content))}
	if len(content) > 0x7f {
		length = nil
		for rest := len(content); rest > 0; rest >>= 8 {
			length = append([]byte{byte(rest)}, length...)
		}
		length = append([]byte{0x80 | byte(len(length))}, length...)
	}
	return append(append([]byte{tag}, length...), content...)
}

func marshal(value any) []byte { return must(asn1.Marshal(value)) }

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatalf("oracle: %v", err)
	}
	return value
}

var (
	oidCN  = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidO   = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidOU  = asn1.ObjectIdentifier{2, 5, 4, 11}
	oidUID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}
)

// Tags of string types.
const (
	utf8String      = 0x0c
	numericString   = 0x12
	printableString = 0x13
	t61String       = 0x14
	ia5String       = 0x16
	visibleString   = 0x1a
	universalString = 0x1c
	bmpString       = 0x1e
)

func attribute(oid asn1.ObjectIdentifier, tag byte, value string) []byte {
	return element(0x30, marshal(oid), element(tag, []byte(value)))
}

// name is a sequence of sets, each of the attributes of one argument.
func name(sets ...[]byte) []byte {
	var all []byte
	for _, set := range sets {
		all = append(all, element(0x31, set)...)
	}
	return element(0x30, all)
}

func named(cn string) []byte { return name(attribute(oidCN, utf8String, cn)) }

func utcTime(at time.Time) []byte { return element(0x17, []byte(at.UTC().Format("060102150405Z"))) }

func generalizedTime(at time.Time) []byte {
	return element(0x18, []byte(at.UTC().Format("20060102150405Z")))
}

func extension(critical bool, der []byte, oid ...int) pkix.Extension {
	return pkix.Extension{Id: oid, Critical: critical, Value: der}
}

func basicConstraints(ca bool, pathLen int) pkix.Extension {
	var content []byte
	if ca {
		content = append(content, 1, 1, 0xff)
	}
	if pathLen >= 0 {
		content = append(content, marshal(pathLen)...)
	}
	return extension(true, element(0x30, content), 2, 5, 29, 19)
}

// keyUsage takes the first byte of the bit string.
func keyUsage(bits byte) pkix.Extension { return extension(true, []byte{3, 2, 0, bits}, 2, 5, 29, 15) }

var (
	clientAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
	serverAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	anyUsage   = asn1.ObjectIdentifier{2, 5, 29, 37, 0}
)

func extKeyUsage(usages ...asn1.ObjectIdentifier) pkix.Extension {
	var all []byte
	for _, usage := range usages {
		all = append(all, marshal(usage)...)
	}
	return extension(false, element(0x30, all), 2, 5, 29, 37)
}

// without takes an extension out; with adds one in place of that of the same kind.
func (f *forged) without(oid asn1.ObjectIdentifier) {
	kept := []pkix.Extension{}
	for _, item := range f.extensions {
		if !item.Id.Equal(oid) {
			kept = append(kept, item)
		}
	}
	f.extensions = kept
}

func (f *forged) with(item pkix.Extension) {
	f.without(item.Id)
	f.extensions = append(f.extensions, item)
}
