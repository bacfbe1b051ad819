//! Authentication: front proxy, client certificate, bearer token, WebSocket subprotocol, in kube-apiserver's order. The first
//! success wins; errors are remembered and matter only when nothing succeeds.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use rustls_pki_types::CertificateDer;

use crate::app::App;
use crate::certificate;
use crate::options::Anonymous;
use crate::route::decode;
use crate::text::lossy;
use crate::upgrade::wants_upgrade;
use crate::user::User;

const PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// No user was found, though a credential was presented or anonymous access is off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unauthorized;

/// One way's opinion: a user, none, or an error.
type Opinion = Result<Option<User>, String>;

/// The sender, or 401.
pub(crate) fn sender(
    app: &App,
    chain: &[CertificateDer<'static>],
    headers: &HeaderMap,
    path: &str,
) -> Result<User, Unauthorized> {
    let ways: [&dyn Fn() -> Opinion; 4] =
        [&|| front_proxy(app, chain, headers), &|| client_certificate(app, chain), &|| bearer(app, headers), &|| {
            subprotocol(app, headers)
        }];
    let mut failed = false;
    for way in ways {
        match way() {
            Ok(Some(user)) => return Ok(user.with_authenticated_group()),
            Ok(None) => {}
            Err(_) => failed = true,
        }
    }
    let health = matches!(path, "/healthz" | "/livez" | "/readyz");
    let open = match app.options.anonymous {
        Anonymous::On => true,
        Anonymous::Off => false,
        Anonymous::HealthOnly => health,
    };
    if failed || !open { Err(Unauthorized) } else { Ok(User::anonymous()) }
}

fn front_proxy(app: &App, chain: &[CertificateDer<'static>], headers: &HeaderMap) -> Opinion {
    let Some(authorities) = &app.requestheader_ca else { return Ok(None) };
    let Some(leaf) = chain.first() else { return Ok(None) };
    authorities.verify(chain)?;
    let name = certificate::common_name(leaf).unwrap_or_default();
    let allowed = &app.options.requestheader_names;
    if !allowed.is_empty() && !allowed.contains(&name) {
        return Err("the proxy's name is not allowed".to_owned());
    }
    let all = |name: &str| headers.get_all(name).iter().map(lossy).collect::<Vec<_>>();
    let Some(username) = all("x-remote-user").into_iter().next().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let uid = all("x-remote-uid").into_iter().next().unwrap_or_default();
    Ok(Some(User { username, uid, groups: all("x-remote-group"), extra: extra(headers, "x-remote-extra-") }))
}

fn client_certificate(app: &App, chain: &[CertificateDer<'static>]) -> Opinion {
    match (&app.client_ca, chain.first()) {
        (Some(authorities), Some(leaf)) => {
            authorities.verify(chain)?;
            certificate::user(leaf)
        }
        _ => Ok(None),
    }
}

fn bearer(app: &App, headers: &HeaderMap) -> Opinion {
    let Some(value) = headers.get(AUTHORIZATION).map(lossy) else { return Ok(None) };
    let mut words = value.trim().splitn(3, ' ');
    match (words.next(), words.next()) {
        (Some(scheme), Some(token)) if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() => known(app, token),
        _ => Ok(None),
    }
}

fn subprotocol(app: &App, headers: &HeaderMap) -> Opinion {
    if wants_upgrade(headers).is_none_or(|protocol| !protocol.eq_ignore_ascii_case("websocket")) {
        return Ok(None);
    }
    let lines = headers.get_all("sec-websocket-protocol").iter().map(lossy).collect::<Vec<_>>().join(",");
    let entries: Vec<&str> = lines.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    let tokens: Vec<&str> = entries.iter().filter_map(|entry| entry.strip_prefix(PROTOCOL_PREFIX)).collect();
    match tokens.as_slice() {
        [] => Ok(None),
        [_] if entries.len() == 1 => Err("a token needs a subprotocol next to it".to_owned()),
        [token] => {
            let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|error| error.to_string())?;
            let token = String::from_utf8(bytes).map_err(|error| error.to_string())?;
            if token.is_empty() { Ok(None) } else { known(app, &token) }
        }
        _ => Err("several tokens".to_owned()),
    }
}

fn known(app: &App, token: &str) -> Opinion {
    app.options.tokens.get(token).map(|entry| Some(User::from(entry))).ok_or_else(|| "invalid bearer token".to_owned())
}

/// Headers `<prefix><key>` as extra values; keys are lower-case and percent-decoded.
pub(crate) fn extra(headers: &HeaderMap, prefix: &str) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(prefix) {
            extra.entry(decode(key, false)).or_default().push(lossy(value));
        }
    }
    extra
}
