use rcgen::{CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};

mod hostile;
mod issuers;

use std::time::Duration;

use super::*;
use crate::moment::Moment;
use crate::review::Store;
use crate::testing::{self, at, ca, client_params, intermediate, issue, now};
use crate::upstream_user::HeaderNames;

fn trust(ca: &testing::Ca) -> ClientCa {
    ClientCa::from_pem(&ca.pem()).unwrap()
}

fn check(certificates: &[&[u8]], ca: &ClientCa, now: UnixTime) -> Result<VerifiedUser, CertificateError> {
    let encoded = testing::encode(certificates);
    verify(&ClientChain::decode(&encoded).unwrap(), ca, now)
}

fn is_verified(params: CertificateParams) -> bool {
    let authority = ca("ca");
    check(&[&issue(params, &authority)], &trust(&authority), now()).is_ok()
}

#[test]
fn certificate_names_its_user() {
    let authority = ca("ca");
    let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
    let leaf = issue(
        client_params(&[(uid, "42"), (DnType::OrganizationName, "dev, ops"), (DnType::CommonName, "alice")]),
        &authority,
    );
    let user = check(&[&leaf], &trust(&authority), now()).unwrap().user.unwrap();
    assert_eq!(user.name, "alice");
    assert_eq!(user.uid, "42");
    assert_eq!(user.groups, ["dev, ops"]);
    let [credential] = &*user.extra else { panic!("{:?}", user.extra) };
    assert_eq!(credential.key, "authentication.kubernetes.io/credential-id");
    let [value] = &*credential.values else { panic!("{credential:?}") };
    assert_eq!(value.len(), "X509SHA256=".len() + 64);
    assert!(value.starts_with("X509SHA256="));
}

#[test]
fn certificate_without_a_common_name_names_no_user() {
    let authority = ca("ca");
    let leaf = issue(client_params(&[(DnType::OrganizationName, "system:masters")]), &authority);
    assert!(check(&[&leaf], &trust(&authority), now()).unwrap().user.is_none());
}

#[test]
fn usages_follow_gos_rules() {
    let with = |usages: &[ExtendedKeyUsagePurpose]| {
        let mut params = testing::alice();
        params.extended_key_usages = usages.to_vec();
        is_verified(params)
    };
    assert!(with(&[ExtendedKeyUsagePurpose::ClientAuth]));
    assert!(with(&[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]));
    assert!(with(&[]), "no extended key usage is any usage");
    assert!(!with(&[ExtendedKeyUsagePurpose::ServerAuth]));
}

#[test]
fn unknown_critical_extensions_are_refused() {
    let with = |critical: bool| {
        let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
        extension.set_criticality(critical);
        let mut params = testing::alice();
        params.custom_extensions = vec![extension];
        is_verified(params)
    };
    assert!(with(false));
    assert!(!with(true));
}

#[test]
fn chain_verifies_only_up_to_the_clusters_ca() {
    let (ours, other) = (ca("ca"), ca("ca"));
    let leaf = issue(testing::alice(), &other);
    assert!(check(&[&leaf], &trust(&other), now()).is_ok());
    assert!(check(&[&leaf], &trust(&ours), now()).is_err(), "same name, other key");
    assert!(check(&[&leaf, other.der()], &trust(&ours), now()).is_err(), "a CA brought along is no anchor");
    let self_signed = testing::alice().self_signed(&KeyPair::generate().unwrap()).unwrap();
    assert!(check(&[self_signed.der()], &trust(&ours), now()).is_err());
}

#[test]
fn intermediates_are_taken_from_the_chain() {
    let root = ca("root");
    let middle = intermediate("middle", &root);
    let leaf = issue(testing::alice(), &middle);
    assert!(check(&[&leaf, middle.der()], &trust(&root), now()).is_ok());
    assert!(check(&[&leaf], &trust(&root), now()).is_err());
    let not_a_ca_key = KeyPair::generate().unwrap();
    let not_a_ca = rcgen::CertifiedIssuer::signed_by(testing::alice(), not_a_ca_key, &root).unwrap();
    let forged = issue(testing::alice(), &not_a_ca);
    assert!(check(&[&forged, not_a_ca.der()], &trust(&root), now()).is_err(), "a client signs no certificates");
}

#[test]
fn validity_is_that_of_the_whole_path() {
    let until = |year| move |params: &mut CertificateParams| params.not_after = date_time_ymd(year, 1, 1);
    let year = |year: i32| at(u64::try_from(date_time_ymd(year, 6, 1).unix_timestamp()).unwrap());
    for expiring in ["root", "middle", "leaf"] {
        let limit = |name: &str, mut params: CertificateParams| {
            if name == expiring {
                until(2032)(&mut params);
            }
            params
        };
        let root = rcgen::CertifiedIssuer::self_signed(
            limit("root", testing::ca_params("root")),
            KeyPair::generate().unwrap(),
        )
        .unwrap();
        let middle = rcgen::CertifiedIssuer::signed_by(
            limit("middle", testing::ca_params("middle")),
            KeyPair::generate().unwrap(),
            &root,
        )
        .unwrap();
        let leaf = issue(limit("leaf", testing::alice()), &middle);
        let chain: [&[u8]; 2] = [&leaf, middle.der()];
        let verified = check(&chain, &trust(&root), year(2031)).unwrap();
        assert!(verified.window.contains(year(2031)), "{expiring}");
        assert!(!verified.window.contains(year(2032)), "{expiring}");
        assert!(check(&chain, &trust(&root), year(2032)).is_err(), "{expiring}");
        assert!(check(&chain, &trust(&root), year(2025)).is_err(), "not yet valid");
    }
}

#[test]
fn renewed_ca_beside_the_expired_one_is_enough() {
    let key = KeyPair::generate().unwrap();
    let mut old = testing::ca_params("ca");
    old.not_after = date_time_ymd(2027, 1, 1);
    let expired = old.self_signed(&key).unwrap();
    let renewed = rcgen::CertifiedIssuer::self_signed(testing::ca_params("ca"), key).unwrap();
    let leaf = issue(testing::alice(), &renewed);
    let both = ClientCa::from_pem(&format!("{}{}", expired.pem(), renewed.pem())).unwrap();
    assert!(check(&[&leaf], &both, now()).is_ok());
    let only_expired = ClientCa::from_pem(&expired.pem()).unwrap();
    assert_eq!(check(&[&leaf], &only_expired, now()).unwrap_err(), CertificateError::OutsideValidity);
}

#[test]
fn bundles_that_are_none_are_refused() {
    assert_eq!(ClientCa::from_pem("").unwrap_err(), ClientCaError::Empty);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(ClientCa::from_pem(broken).unwrap_err(), ClientCaError::Certificate(0));
}

#[test]
fn chains_travel_whole_and_bounded() {
    let encoded = testing::encode(&[b"leaf", b"", b"root"]);
    let chain = ClientChain::decode(&encoded).unwrap();
    assert_eq!(chain.leaf(), b"leaf");
    assert_eq!(chain.intermediates().collect::<Vec<_>>(), [&b""[..], b"root"]);
    let other = testing::encode(&[b"leafroot"]);
    assert_ne!(chain.digest(), ClientChain::decode(&other).unwrap().digest());

    let many = vec![&b"x"[..]; MAX_CERTIFICATES + 1];
    assert_eq!(ClientChain::decode(&testing::encode(&many)).unwrap_err(), ChainError::TooLarge);
    let large = vec![0; MAX_BYTES + 1];
    assert_eq!(ClientChain::decode(&testing::encode(&[&large])).unwrap_err(), ChainError::TooLarge);
    for garbled in [&b""[..], b"short", &[0; 32], &[0; 36], &[9; 40]] {
        assert_eq!(ClientChain::decode(garbled).unwrap_err(), ChainError::Malformed);
    }
}

#[test]
fn cache_compares_validity_at_every_call() {
    let authority = ca("ca");
    let mut params = testing::alice();
    params.not_after = date_time_ymd(2030, 1, 2);
    let encoded = testing::encode(&[&issue(params, &authority)]);
    let chain = ClientChain::decode(&encoded).unwrap();
    let store = Store::default();
    let (cache, ca) = (CertificateCache::new(&store.certificates, store.owner()), trust(&authority));
    let uptime = Duration::ZERO;
    let user = |now| cache.user(&chain, &ca, &HeaderNames::impersonate(), Moment { now, uptime });
    let day = 86_400;
    assert!(user(now()).is_ok());
    assert!(user(now()).is_ok());
    assert!(user(at(now().as_secs() + 2 * day)).is_err());
    assert!(user(at(now().as_secs() - 1500 * day)).is_err(), "a clock set back refuses too");
    assert!(user(now()).is_ok(), "a refusal is of its time");
}

/// The certificates behind a leaf cost its holder nothing.
#[test]
fn one_chain_of_a_leaf_is_remembered() {
    let authority = ca("ca");
    let leaf = issue(testing::alice(), &authority);
    let store = Store::default();
    let (cache, trusted) = (CertificateCache::new(&store.certificates, store.owner()), trust(&authority));
    let at = Moment { now: now(), uptime: Duration::ZERO };
    let user = |certificates: &[&[u8]]| {
        let encoded = testing::encode(certificates);
        let chain = ClientChain::decode(&encoded).unwrap();
        cache.user(&chain, &trusted, &HeaderNames::impersonate(), at).unwrap().is_some()
    };
    assert!(user(&[&leaf]));
    for _ in 0..20 {
        assert!(user(&[&leaf, ca("junk").der()]));
    }
    assert_eq!(cache.entries(), (2, 0), "alone, and with the last one behind it");
    assert!(user(&[&issue(testing::alice(), &authority)]));
    assert_eq!(cache.entries(), (3, 0), "another leaf is remembered by itself");
}

/// A chain that is not valid yet is looked at again ten seconds later, whatever the clock has been set to meanwhile.
#[test]
fn refused_chains_age_by_the_clock_that_nobody_sets() {
    let authority = ca("ca");
    let encoded = testing::encode(&[&issue(testing::alice(), &authority)]);
    let chain = ClientChain::decode(&encoded).unwrap();
    let early = now().as_secs() - 5 * 365 * 86_400;
    for (set_to, age, is_believed) in [
        (early, 9, false),
        (early, 10, false),
        (now().as_secs(), 9, false),
        (now().as_secs(), 10, true),
        (now().as_secs(), 11, true),
    ] {
        let store = Store::default();
        let (cache, ca) = (CertificateCache::new(&store.certificates, store.owner()), trust(&authority));
        let user = |seconds, age| {
            let at = Moment { now: at(seconds), uptime: Duration::from_secs(age) };
            cache.user(&chain, &ca, &HeaderNames::impersonate(), at)
        };
        assert!(user(early, 0).is_err(), "not valid yet");
        assert_eq!(user(set_to, age).is_ok(), is_believed, "set to {set_to}, {age} s later");
    }
}

proptest::proptest! {
    #[test]
    fn hostile_bytes_never_verify(bytes: Vec<u8>) {
        let authority = ca("ca");
        let encoded = testing::encode(&[&bytes]);
        if let Ok(chain) = ClientChain::decode(&encoded) {
            proptest::prop_assert!(verify(&chain, &trust(&authority), now()).is_err());
        }
    }
}
