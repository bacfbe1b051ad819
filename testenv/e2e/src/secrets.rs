use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Shortest piece of a key that is looked for: nothing else has as many characters by chance.
const PIECE: usize = 24;

/// The common prefix of all keys on the curve P-256.
const HEAD: &str = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg";
/// Bytes of the first line of a PEM file, and of the last one.
const BEGIN: usize = 28;
const END: usize = 27;

/// Keys, tokens and passwords that must turn up nowhere, in any form.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    needles: Vec<(String, String)>,
}

impl Secrets {
    /// A token or password: as it is and in base64.
    #[must_use]
    pub fn token(mut self, name: &str, token: &str) -> Self {
        self.needles.push((name.to_owned(), token.to_owned()));
        // A text that stands before it may move it by some bits, but not the middle of what comes out.
        self.needles.push((format!("{name} in base64"), STANDARD.encode(token).trim_end_matches('=').to_owned()));
        self
    }

    /// A private key in PEM (PKCS #8): every piece of its lines, and of the whole in base64. The common prefix and suffix of
    /// all keys of a kind are no secret.
    #[must_use]
    pub fn key(mut self, name: &str, pem: &str) -> Self {
        for line in pem.lines().filter(|line| !line.starts_with("-----")) {
            let shared = if line.starts_with(HEAD) { HEAD.len() } else { 0 };
            self.pieces(name, line.get(shared..).unwrap_or_default());
        }
        let whole = STANDARD.encode(pem);
        let (head, foot) = (BEGIN + HEAD.len(), END);
        let own = whole.get(head.div_ceil(3) * 4..whole.len().saturating_sub(foot.div_ceil(3) * 4));
        self.pieces(&format!("{name} in base64"), own.unwrap_or_default());
        self
    }

    fn pieces(&mut self, name: &str, text: &str) {
        let mut rest = text;
        while let Some((piece, behind)) = rest.split_at_checked(PIECE) {
            self.needles.push((name.to_owned(), piece.to_owned()));
            rest = behind;
        }
    }

    /// Which of them turn up in a text.
    pub fn found_in(&self, text: &str) -> Vec<&str> {
        let found = self.needles.iter().filter(|(_, needle)| text.contains(needle.as_str()));
        let mut names: Vec<&str> = found.map(|(name, _)| name.as_str()).collect();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_found_and_what_keys_share_is_not() {
        let pem = |own: &str| {
            let body = format!("{HEAD}{}\n{}\n{}", &own[..16], &own[16..80], &own[80..]);
            format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
        };
        let own: String = (0..140_u32).map(|n| char::from(b'a' + u8::try_from(n * n % 26).unwrap())).collect();
        let other: String = (0..140_u32).map(|n| char::from(b'A' + u8::try_from(n * n * n % 26).unwrap())).collect();
        let secrets = Secrets::default().key("key", &pem(&own)).token("token", "0123456789");
        assert_eq!(secrets.found_in(&pem(&own)), ["key"]);
        assert_eq!(secrets.found_in(&pem(&own).replace('\n', "\\n")), ["key"]);
        assert_eq!(secrets.found_in(&format!("{{{}}}", STANDARD.encode(pem(&own)))), ["key in base64"]);
        assert_eq!(secrets.found_in(&format!("x {} y", &own[20..70])), ["key"], "a part of a line");
        assert_eq!(secrets.found_in("a0123456789b"), ["token"]);
        assert_eq!(secrets.found_in(&STANDARD.encode("0123456789")), ["token in base64"]);
        let others = pem(&other);
        assert_eq!(secrets.found_in(&others), [""; 0]);
        assert_eq!(secrets.found_in(&STANDARD.encode(others)), [""; 0]);
    }
}
