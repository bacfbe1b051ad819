//! Go's requirements of certificates beyond webpki's. testenv/oracle-tests asks Go itself; these hold without.

use rcgen::string::{BmpString, TeletexString};
use rcgen::{BasicConstraints, CertifiedIssuer, DnValue, IsCa, KeyUsagePurpose, SerialNumber};

use super::*;

fn root(change: impl FnOnce(&mut CertificateParams)) -> testing::Ca {
    let mut params = testing::ca_params("root");
    change(&mut params);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn below(root: &testing::Ca, change: impl FnOnce(&mut CertificateParams)) -> testing::Ca {
    let mut params = testing::ca_params("middle");
    change(&mut params);
    CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), root).unwrap()
}

/// Whether alice is believed, through an intermediate if there is one.
fn is_believed(root: &testing::Ca, middle: Option<&testing::Ca>) -> bool {
    let leaf = issue(testing::alice(), middle.unwrap_or(root));
    let mut chain: Vec<&[u8]> = vec![&leaf];
    chain.extend(middle.map(|middle| &**middle.der()));
    check(&chain, &trust(root), now()).is_ok()
}

#[test]
fn issuer_may_sign_certificates() {
    let only_data = |params: &mut CertificateParams| params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let unsaid = |params: &mut CertificateParams| params.key_usages = vec![];
    let plain = root(|_| {});
    assert!(is_believed(&plain, Some(&below(&plain, |_| {}))));
    assert!(is_believed(&plain, Some(&below(&plain, unsaid))));
    assert!(!is_believed(&plain, Some(&below(&plain, only_data))));
    assert!(is_believed(&root(unsaid), None));
    assert!(!is_believed(&root(only_data), None));
}

#[test]
fn trusted_certificate_is_a_ca_for_clients() {
    let usage = |usage: ExtendedKeyUsagePurpose| {
        root(move |params: &mut CertificateParams| params.extended_key_usages = vec![usage])
    };
    assert!(is_believed(&usage(ExtendedKeyUsagePurpose::ClientAuth), None));
    assert!(is_believed(&usage(ExtendedKeyUsagePurpose::Any), None));
    assert!(!is_believed(&usage(ExtendedKeyUsagePurpose::ServerAuth), None));
    assert!(!is_believed(&root(|params| params.is_ca = IsCa::ExplicitNoCa), None));
    let unknown = |params: &mut CertificateParams| {
        let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
        extension.set_criticality(true);
        params.custom_extensions = vec![extension];
    };
    assert!(!is_believed(&root(unknown), None));
}

#[test]
fn useless_certificate_of_a_bundle_stands_in_nobodys_way() {
    let (good, useless) = (root(|_| {}), root(|params| params.is_ca = IsCa::ExplicitNoCa));
    let bundle = ClientCa::from_pem(&format!("{}{}", useless.pem(), good.pem())).unwrap();
    assert!(check(&[&issue(testing::alice(), &good)], &bundle, now()).is_ok());
    assert!(check(&[&issue(testing::alice(), &useless)], &bundle, now()).is_err());
}

#[test]
fn path_length_of_the_trusted_certificate_counts() {
    let limited = |most| root(move |params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(most)));
    let (none, one) = (limited(0), limited(1));
    assert!(is_believed(&none, None));
    assert!(!is_believed(&none, Some(&below(&none, |_| {}))));
    assert!(is_believed(&one, Some(&below(&one, |_| {}))));
}

#[test]
fn chain_that_ends_gos_handshake_is_refused() {
    let plain = root(|_| {});
    let leaf = issue(testing::alice(), &plain);
    assert!(check(&[&leaf, plain.der()], &trust(&plain), now()).is_ok());
    assert!(check(&[&leaf, &[0x30, 0]], &trust(&plain), now()).is_err(), "garbage sent along");
    let mut odd = testing::alice();
    odd.serial_number = Some(SerialNumber::from_slice(&[0]));
    assert!(check(&[&issue(odd, &plain)], &trust(&plain), now()).is_ok(), "zero is a number");
    let twice = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
    let mut odd = testing::alice();
    odd.custom_extensions = vec![twice.clone(), twice];
    assert!(check(&[&issue(odd, &plain)], &trust(&plain), now()).is_err(), "an extension twice");
}

#[test]
fn names_are_read_as_go_reads_them() {
    let plain = root(|_| {});
    let name = |value: DnValue| {
        let mut params = client_params(&[]);
        params.distinguished_name.push(DnType::CommonName, value);
        let user = check(&[&issue(params, &plain)], &trust(&plain), now()).unwrap().user;
        user.map(|user| user.name)
    };
    assert_eq!(name(DnValue::Utf8String("Zoë".into())).as_deref(), Some("Zoë"));
    assert_eq!(name(DnValue::BmpString(BmpString::try_from("Zoë").unwrap())).as_deref(), Some("Zoë"));
    assert_eq!(name(DnValue::TeletexString(TeletexString::try_from("zoe").unwrap())).as_deref(), Some("zoe"));
    assert_eq!(name(DnValue::Utf8String(String::new())), None);
}

#[test]
fn uid_counts_only_beside_a_name() {
    let plain = root(|_| {});
    let uid = || DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
    let user = |subject: &[(DnType, &str)]| {
        check(&[&issue(client_params(subject), &plain)], &trust(&plain), now()).map(|verified| verified.user)
    };
    assert!(user(&[(uid(), "")]).unwrap().is_none());
    assert_eq!(user(&[(uid(), ""), (DnType::CommonName, "alice")]).unwrap_err(), CertificateError::Subject);
}

#[test]
fn extended_key_usage_any_allows_all() {
    let with = |usages: Vec<ExtendedKeyUsagePurpose>| {
        let mut params = testing::alice();
        params.extended_key_usages = usages;
        is_verified(params)
    };
    assert!(with(vec![ExtendedKeyUsagePurpose::Any]));
    assert!(with(vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::Any]));
    assert!(!with(vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::CodeSigning]));
}

fn chain_of(leaf: &[u8], issuers: &[&testing::Ca]) -> Vec<Vec<u8>> {
    std::iter::once(leaf.to_vec()).chain(issuers.iter().map(|issuer| issuer.der().to_vec())).collect()
}

fn is_trusted(chain: &[Vec<u8>], trust: &ClientCa) -> bool {
    check(&chain.iter().map(|der| &**der).collect::<Vec<_>>(), trust, now()).is_ok()
}

#[test]
fn path_has_at_most_four_intermediates() {
    let mut issuers = vec![root(|_| {})];
    for number in 0..5 {
        let next = intermediate(&format!("middle {number}"), issuers.last().unwrap());
        issuers.push(next);
    }
    let trust = trust(&issuers[0]);
    for (depth, is_short) in [(0, true), (1, true), (4, true), (5, false)] {
        let leaf = issue(testing::alice(), &issuers[depth]);
        let above: Vec<&testing::Ca> = issuers[1..=depth].iter().collect();
        assert_eq!(is_trusted(&chain_of(&leaf, &above), &trust), is_short, "{depth}");
        let reversed: Vec<&testing::Ca> = above.into_iter().rev().collect();
        assert_eq!(is_trusted(&chain_of(&leaf, &reversed), &trust), is_short, "{depth}, in another order");
    }
}

/// RFC 4210, 4.4: the old key signs the new one under the same name.
#[test]
fn new_key_of_a_ca_is_trusted_through_the_old_one() {
    let old = root(|_| {});
    let with_key_ids = |params: &mut CertificateParams| params.use_authority_key_identifier_extension = true;
    for change in [|_: &mut CertificateParams| {}, with_key_ids] {
        let mut params = testing::ca_params("root");
        change(&mut params);
        let new = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &old).unwrap();
        let mut params = testing::alice();
        change(&mut params);
        let leaf = issue(params, &new);
        assert!(is_trusted(&chain_of(&leaf, &[&new]), &trust(&old)));
        assert!(is_trusted(&chain_of(&leaf, &[&new, &old]), &trust(&old)));
        assert!(!is_trusted(&chain_of(&leaf, &[]), &trust(&old)));
    }
}

#[test]
fn cross_signed_issuer_is_trusted_by_either_root() {
    let (ours, theirs) = (root(|_| {}), ca("other root"));
    let (key, params) = (KeyPair::generate().unwrap(), || testing::ca_params("middle"));
    let pem = key.serialize_pem();
    let by = |root| CertifiedIssuer::signed_by(params(), KeyPair::from_pem(&pem).unwrap(), root).unwrap();
    let (by_ours, by_theirs) = (by(&ours), by(&theirs));
    let leaf = issue(testing::alice(), &by_ours);
    for issuers in [[&by_ours, &by_theirs], [&by_theirs, &by_ours]] {
        let chain = chain_of(&leaf, &issuers);
        assert!(is_trusted(&chain, &trust(&ours)));
        assert!(is_trusted(&chain, &trust(&theirs)));
        assert!(!is_trusted(&chain, &trust(&ca("third root"))));
    }
}

#[test]
fn expired_issuer_hides_no_valid_one_of_its_key() {
    let plain = root(|_| {});
    let pem = KeyPair::generate().unwrap().serialize_pem();
    let until = |year| {
        let mut params = testing::ca_params("middle");
        params.not_after = date_time_ymd(year, 1, 1);
        CertifiedIssuer::signed_by(params, KeyPair::from_pem(&pem).unwrap(), &plain).unwrap()
    };
    let (expired, valid) = (until(2029), until(2035));
    let leaf = issue(testing::alice(), &valid);
    assert!(is_trusted(&chain_of(&leaf, &[&expired, &valid]), &trust(&plain)));
    assert!(!is_trusted(&chain_of(&leaf, &[&expired]), &trust(&plain)));
}

#[test]
fn two_roots_of_one_name_are_both_asked() {
    let (first, second) = (root(|_| {}), root(|_| {}));
    let both = ClientCa::from_pem(&format!("{}{}", first.pem(), second.pem())).unwrap();
    for issuer in [&first, &second] {
        assert!(is_trusted(&[issue(testing::alice(), issuer)], &both));
    }
    assert!(!is_trusted(&[issue(testing::alice(), &root(|_| {}))], &both));
}

#[test]
fn issuer_with_another_key_identifier_is_none() {
    let (params, key) = (testing::ca_params("root"), KeyPair::generate().unwrap());
    let own = params.key_identifier(&key);
    let plain = CertifiedIssuer::self_signed(params, key).unwrap();
    let issuer_key = |id: &[u8]| {
        let content = [&[0x30, 22, 0x80, 20][..], id].concat();
        let mut params = testing::alice();
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[2, 5, 29, 35], content)];
        is_trusted(&[issue(params, &plain)], &trust(&plain))
    };
    assert_eq!(own.len(), 20);
    assert!(issuer_key(&own));
    assert!(!issuer_key(&[7; 20]));
}
