//! The words themselves, with a space between them.

/// Words that mean a credential wherever they stand in a longer one.
pub(super) const STEMS: &str = "\
    apikey assertion authentic authoris authoriz bearer cookie credential csrf dpop hmac jwt oauth oidc \
    passcode passkey passphrase passw principal saml secret sessid signature xsrf";

/// Words that mean a credential as a whole.
pub(super) const WHOLE: &str = "\
    apisig appid auth authn authz cred creds jwe jws mfa otp psw pswd pw sess sid sig sso tkn totp \
    userpass";

/// What stands before `key` in one word if it is a credential.
pub(super) const KINDS_OF_KEY: &str = "\
    access account admin api app application client consumer dev developer encryption function functions \
    host license licence master private secret server service shared signing storage subscription user \
    virtual";

/// What stands just before `token` if it is a credential, whatever else the name says.
pub(super) const KINDS_OF_TOKEN: &str = "\
    access account admin api app bot client customer device id identity login personal private push \
    refresh security service user vault web";

pub(super) const KINDS_OF_CODE: &str = "\
    access activation confirmation device invite login pairing recovery reset security verification";

/// What follows a credential's name if the value says something about credentials.
pub(super) const QUANTITIES: &str = "budget count limit size type usage";

/// What stands beside or before `token` if it is a place in a list, a number, a kind, or the name of one request.
pub(super) const HARMLESS_TOKEN: &str = "\
    budget continuation continue count cursor delta idempotency idempotent limit max min next offset \
    page pagination paging prev previous resume scroll skip start starting stop sync total type usage \
    watch";

pub(super) const HARMLESS_KEY: &str = "\
    affinity cache column correlation cursor dedup deduplication end evaluated event field foreign group \
    hash idempotency idempotent index lookup message object order page partition prefix primary public \
    range routing row shard sort start surrogate tag thread topic unique websocket";

pub(super) const HARMLESS_CODE: &str = "\
    airline airport area bar calling category city class color colour country currency department dial \
    error exit iata icao iso item lang language locale location phone post postal product qr reason \
    region response return source state station status tax type unit zip";

pub(super) const HARMLESS_TICKET: &str = "class count event id ids number price status type";

pub(super) const HARMLESS_SIGN: &str = "in off on out up";

pub(super) const HARMLESS_PASS: &str = "by count fail rate through";
