//! Chains that are free to make: unsigned, or signed in part. The cost of each is bounded by its bytes.

use rcgen::Issuer;
use rcgen::string::TeletexString;

use super::*;

const USAGES: [u8; 3] = [0x55, 0x1d, 0x25];
const POLICIES: [u8; 3] = [0x55, 0x1d, 0x20];
const ISSUER_KEY: [u8; 3] = [0x55, 0x1d, 0x23];
const ALTERNATIVE_NAMES: [u8; 3] = [0x55, 0x1d, 0x11];

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    let header = match length {
        0..0x80 => vec![tag, u8::try_from(length).unwrap()],
        0x80..0x100 => vec![tag, 0x81, u8::try_from(length).unwrap()],
        _ => [&[tag, 0x82][..], &length.to_be_bytes()].concat(),
    };
    [header, content.to_vec()].concat()
}

/// An object identifier of its own for each number.
fn identifier(number: usize) -> Vec<u8> {
    let number = u8::try_from(number >> 7).map(|high| [0x80 | high, u8::try_from(number & 0x7f).unwrap()]).unwrap();
    element(6, &[&[0x2a], &number[..]].concat())
}

fn list(count: usize, item: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    element(0x30, &(0..count).flat_map(item).collect::<Vec<u8>>())
}

/// Any usage, behind that many others: a reader of all reads them for every path.
fn usages(count: usize) -> CustomExtension {
    let any = element(6, &[0x55, 0x1d, 0x25, 0]);
    let other = |number: usize| element(6, &[u8::try_from(number % 100).unwrap()]);
    extension(&USAGES, list(count, |number| if number == 0 { any.clone() } else { other(number) }))
}

fn policies(count: usize) -> CustomExtension {
    extension(&POLICIES, list(count, |number| element(0x30, &identifier(number))))
}

/// An extension of `2.5.29`.
fn extension(oid: &[u8; 3], content: Vec<u8>) -> CustomExtension {
    let [_, _, last] = *oid;
    CustomExtension::from_oid_content(&[2, 5, 29, u64::from(last)], content)
}

/// A certificate of an issuer that the root never saw, under the root's name or another.
fn unsigned(params: CertificateParams, issuer: &str) -> Vec<u8> {
    let issuer = Issuer::new(testing::ca_params(issuer), KeyPair::generate().unwrap());
    params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().to_vec()
}

fn with(mut params: CertificateParams, extensions: Vec<CustomExtension>) -> CertificateParams {
    params.custom_extensions = extensions;
    params
}

/// A leaf and seven intermediates of the same names.
fn look_alikes(issuer: &str, intermediate: impl Fn() -> CertificateParams) -> Vec<Vec<u8>> {
    let leaf = unsigned(testing::alice(), issuer);
    std::iter::once(leaf).chain((0..7).map(|_| unsigned(intermediate(), issuer))).collect()
}

fn subject_of(count: usize) -> CertificateParams {
    let mut params = client_params(&[]);
    for number in 0..count {
        let kind = DnType::CustomDnType(vec![2, 5, 4, 100 + u64::try_from(number).unwrap()]);
        params.distinguished_name.push(kind, "x");
    }
    params
}

const OVERSIZED: CertificateError = CertificateError::Oversized;
const UNNAMED: CertificateError = CertificateError::Unverified(PathError::Issuer);
const UNSIGNED: CertificateError = CertificateError::Unverified(PathError::Signature);

/// A chain, why it is refused, and for how many signatures at most.
type Case = (&'static str, Vec<Vec<u8>>, CertificateError, u32);

/// Certificates with more parts than are looked at.
fn oversized() -> Vec<Case> {
    let leaf = |extensions| vec![unsigned(with(testing::alice(), extensions), "ca")];
    let own_key = KeyPair::generate().unwrap();
    let self_signed = with(testing::alice(), vec![policies(4_000)]).self_signed(&own_key).unwrap().der().to_vec();
    let unknown = |number| CustomExtension::from_oid_content(&[1, 2, 3, number], vec![5, 0]);
    let nested = (0..7_000).fold(Vec::new(), |inner, _| element(0x30, &inner));
    let addresses = list(5_000, |_| element(0x87, &[10, 0, 0, 1]));
    let hidden = element(0x30, &element(0x81, &[0x87, 0].repeat(15_000)));
    let crowd =
        |extension: CustomExtension| look_alikes("x", move || with(testing::ca_params("x"), vec![extension.clone()]));
    vec![
        ("seven look-alikes of 1,300 usages", crowd(usages(1_300)), OVERSIZED, 0),
        ("self-signed leaf of 4,000 policies", vec![self_signed], OVERSIZED, 0),
        ("one usage too many", crowd(usages(33)), OVERSIZED, 0),
        ("one policy too many", crowd(policies(33)), OVERSIZED, 0),
        ("many names", leaf(vec![extension(&ALTERNATIVE_NAMES, addresses)]), OVERSIZED, 0),
        ("many attributes", vec![unsigned(subject_of(2_000), "ca")], OVERSIZED, 0),
        ("many extensions", leaf((0..1_500).map(unknown).collect()), OVERSIZED, 0),
        ("one extension too many", leaf((0..32).map(unknown).collect()), OVERSIZED, 0),
        ("nested lists", leaf(vec![extension(&POLICIES, nested)]), OVERSIZED, 0),
        ("names that say they are none", leaf(vec![extension(&ISSUER_KEY, hidden)]), OVERSIZED, 0),
        ("garbage", vec![vec![0x30; 32_000]], OVERSIZED, 0),
    ]
}

/// Certificates that are read, but that no trusted key has signed.
fn unsigned_ones(root: &testing::Ca) -> Vec<Case> {
    let ca = testing::ca_params;
    let long_name = |last: char| format!("{}{last}", "n".repeat(1_900));
    let letters = TeletexString::try_from("e".repeat(31_000)).unwrap();
    let mut latin = client_params(&[]);
    latin.distinguished_name.push(DnType::CommonName, rcgen::DnValue::TeletexString(letters));
    let names = |count| extension(&ALTERNATIVE_NAMES, list(count, |_| element(0x82, b"k")));
    let full = || with(ca("ca"), vec![usages(30), names(290), policies(30)]);
    let mut largest = look_alikes("ca", full);
    largest[0] = unsigned(with(subject_of(260), vec![names(300), policies(30)]), "ca");
    let middles = (0..6).map(|_| intermediate("middle", root).der().to_vec());
    let partly = std::iter::once(unsigned(testing::alice(), "middle")).chain(middles).collect();
    vec![
        ("look-alikes that name the root", look_alikes("ca", || ca("ca")), UNSIGNED, 1),
        ("look-alikes of nobody", look_alikes("x", || ca("x")), UNNAMED, 0),
        ("as much as is read", largest, UNSIGNED, 1),
        ("issuers that are almost alike", look_alikes(&long_name('a'), || ca(&long_name('b'))), UNNAMED, 0),
        ("a long name in Latin-1", vec![unsigned(latin, "ca")], UNSIGNED, 1),
        ("intermediates that the root signed", partly, UNSIGNED, MAX_SIGNATURES),
    ]
}

/// The bound of a chain's cost: a step for every byte, and some for a short chain.
fn most_steps(bytes: usize) -> u64 {
    u64::try_from(bytes + 640).unwrap()
}

#[test]
fn unsigned_chain_costs_no_more_than_its_bytes() {
    let root = ca("ca");
    let trust = trust(&root);
    for (name, chain, expected, signatures) in oversized().into_iter().chain(unsigned_ones(&root)) {
        let bytes = chain.iter().map(Vec::len).sum();
        let encoded = testing::encode(&chain.iter().map(|der| &**der).collect::<Vec<_>>());
        let chain = ClientChain::decode(&encoded).unwrap();
        let (mut cost, start) = (Cost::default(), std::time::Instant::now());
        let verdict = verify_counted(&chain, &trust, now(), &mut cost);
        // For people; a machine has other things to do meanwhile.
        println!("{name}: {bytes} bytes, {cost:?}, {:?}", start.elapsed());
        assert_eq!(verdict.unwrap_err(), expected, "{name}");
        assert!(cost.steps <= most_steps(bytes), "{name}: {cost:?} of {bytes} bytes");
        assert!(cost.signatures <= signatures, "{name}: {cost:?}");
    }
}

/// As many attributes as a user may have groups, and the rest that a certificate may want.
#[test]
fn large_certificate_of_a_user_is_read() {
    let root = ca("ca");
    let mut subject = subject_of(256);
    subject.distinguished_name.push(DnType::CommonName, "alice");
    let names = extension(&ALTERNATIVE_NAMES, list(100, |_| element(0x82, b"alice.example.com")));
    let leaf = issue(with(subject, vec![names, policies(32)]), &root);
    let user = check(&[&leaf], &trust(&root), now()).unwrap().user.unwrap();
    assert_eq!(user.name, "alice");
}
