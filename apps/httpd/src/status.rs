//! Status codes with their reason phrases. [RFC 9110 15]

/// The codes this server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 200,
    NoContent = 204,
    PartialContent = 206,
    MovedPermanently = 301,
    NotModified = 304,
    BadRequest = 400,
    Unauthorized = 401,
    Forbidden = 403,
    NotFound = 404,
    MethodNotAllowed = 405,
    NotAcceptable = 406,
    RequestTimeout = 408,
    Conflict = 409,
    PreconditionFailed = 412,
    ContentTooLarge = 413,
    UriTooLong = 414,
    RangeNotSatisfiable = 416,
    ExpectationFailed = 417,
    TooManyRequests = 429,
    RequestHeaderFieldsTooLarge = 431,
    InternalServerError = 500,
    NotImplemented = 501,
    ServiceUnavailable = 503,
    HttpVersionNotSupported = 505,
}

impl Status {
    /// The status of an answer of the status page.
    pub(crate) const fn of_page(code: u16) -> Self {
        match code {
            200 => Self::Ok,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            406 => Self::NotAcceptable,
            409 => Self::Conflict,
            429 => Self::TooManyRequests,
            _ => Self::InternalServerError,
        }
    }

    pub(crate) const fn code(self) -> u16 {
        self as u16
    }

    /// The code and the reason phrase, as they stand in the status line.
    pub(crate) const fn phrase(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::NoContent => "204 No Content",
            Self::PartialContent => "206 Partial Content",
            Self::MovedPermanently => "301 Moved Permanently",
            Self::NotModified => "304 Not Modified",
            Self::BadRequest => "400 Bad Request",
            Self::Unauthorized => "401 Unauthorized",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::NotAcceptable => "406 Not Acceptable",
            Self::RequestTimeout => "408 Request Timeout",
            Self::Conflict => "409 Conflict",
            Self::PreconditionFailed => "412 Precondition Failed",
            Self::ContentTooLarge => "413 Content Too Large",
            Self::UriTooLong => "414 URI Too Long",
            Self::RangeNotSatisfiable => "416 Range Not Satisfiable",
            Self::ExpectationFailed => "417 Expectation Failed",
            Self::TooManyRequests => "429 Too Many Requests",
            Self::RequestHeaderFieldsTooLarge => "431 Request Header Fields Too Large",
            Self::InternalServerError => "500 Internal Server Error",
            Self::NotImplemented => "501 Not Implemented",
            Self::ServiceUnavailable => "503 Service Unavailable",
            Self::HttpVersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}
