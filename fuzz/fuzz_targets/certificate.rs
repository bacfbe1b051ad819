//! Certificates: hostile bytes never verify and cost linear time, and a valid signature gives only users that headers can
//! carry.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use portcullis_core::identity::UserInfo;
use portcullis_core::upstream_user::UpstreamUser;
use portcullis_core::x509::{ClientCa, ClientChain, Cost, MAX_SIGNATURES, encode_chain, verify, verify_counted};
use portcullis_fuzz::der::Authority;
use portcullis_fuzz::{NOW, at};

static AUTHORITY: LazyLock<(Authority, ClientCa)> = LazyLock::new(|| {
    let authority = Authority::default();
    let ca = ClientCa::from_pem(&authority.pem()).unwrap();
    let subject = [0x31, 12, 0x30, 10, 6, 3, 0x55, 4, 3, 0x0c, 3, b'b', b'o', b'b'];
    let leaf = authority.leaf(&subject, &[]);
    let chain = encode_chain([&*leaf].into_iter());
    let user = verify(&ClientChain::decode(&chain).unwrap(), &ca, at(NOW)).unwrap().user.unwrap();
    assert_eq!(user.name, "bob", "a plain certificate is believed");
    (authority, ca)
});

/// A kind of input for each first byte, so that all are mutated.
fn chain(data: &[u8]) -> (bool, Vec<Vec<u8>>) {
    let (authority, _) = &*AUTHORITY;
    let (kind, rest) = data.split_first().unwrap_or((&0, &[]));
    match kind % 4 {
        0 => (true, vec![authority.leaf(rest, &[])]),
        1 => {
            let at = rest.first().map_or(0, |at| usize::from(*at)).min(rest.len());
            let (subject, extensions) = rest.split_at(at);
            (true, vec![authority.leaf(subject.get(1..).unwrap_or_default(), extensions)])
        }
        2 => {
            // As many look-alikes as there are extensions for, each below the CA or below its like.
            let all = rest.split(|byte| *byte == 0xfe);
            let like = |part: &[u8]| {
                let (is_below_ca, extensions) = part.split_first().unwrap_or((&0, &[]));
                authority.stranger(is_below_ca % 2 == 1, extensions)
            };
            (false, all.map(like).collect())
        }
        _ => {
            let all = rest.split(|byte| *byte == 0xfe).map(<[u8]>::to_vec).collect();
            (false, all)
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let (authority, ca) = &*AUTHORITY;
    let (signed, mut certificates) = chain(data);
    certificates.push(authority.der.clone());
    let encoded = encode_chain(certificates.iter().map(|der| &**der));
    let Ok(chain) = ClientChain::decode(&encoded) else { return };
    assert_eq!(chain.leaf(), &*certificates[0]);
    assert_eq!(chain.intermediates().count(), certificates.len() - 1);
    let mut cost = Cost::default();
    let verified = verify_counted(&chain, ca, at(NOW), &mut cost);
    assert!(cost.steps <= encoded.len() as u64 + 640, "{cost:?} of {} bytes", encoded.len());
    assert!(cost.signatures <= if signed { MAX_SIGNATURES } else { 1 }, "{cost:?}");
    let Ok(verified) = verified else { return };
    assert!(signed, "nobody signed this");
    assert!(verified.window.contains(at(NOW)) && !verified.window.contains(at(NOW + 400_000_000)));
    let Some(user) = verified.user.map(UserInfo::into_authenticated) else { return };
    assert!(!user.name.is_empty());
    assert!(
        user.groups.iter().any(|group| group == "system:authenticated" || group == "system:unauthenticated")
            || user.name == "system:anonymous"
    );
    // Its parts are in the certificate, byte for byte, unless a string type has an encoding of its own.
    let is_encoded = chain.leaf().iter().any(|byte| matches!(byte, 0x14 | 0x1e));
    for part in user.groups.iter().filter(|group| *group != "system:authenticated").chain([&user.name, &user.uid]) {
        assert!(
            part.is_empty() || is_encoded || chain.leaf().windows(part.len()).any(|window| window == part.as_bytes())
        );
    }
    if let Ok(told) = UpstreamUser::new(user) {
        for (name, value) in told.header_lines() {
            assert!(name.starts_with("impersonate-"));
            assert!(!value.is_empty() && !value.bytes().any(|byte| byte < 0x20 || byte == 0x7f));
            assert!(!value.starts_with(' ') && !value.ends_with(' '));
        }
    }
});
