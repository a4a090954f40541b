"""The client of rows as a transport of httpx, for everyone else."""

from typing import final

import httpx

from triocollect.errors import TransportError
from triocollect.transport.client import Client
from triocollect.transport.foreign import ReplyStream, as_httpx, message_of, origin_of, patience_of


@final
class Transport(Client, httpx.AsyncBaseTransport):
    """What a client does, and what httpx asks of a transport: each request once, nothing ever sent again."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request of httpx, bodies streamed both ways. Raises httpx.TransportError.

        The request's timeouts bound connecting, each read and each write.
        """
        connect_s, patience = patience_of(request)
        try:
            message = message_of(request)
            connection = await self._connection(origin_of(request.url), connect_s)
            try:
                await connection.begin(message, patience)
            except BaseException:
                await connection.close()
                raise
        except TransportError as error:
            raise as_httpx(error, request) from error
        parser = connection.parser
        return httpx.Response(
            parser.status,
            headers=parser.headers,
            stream=ReplyStream(connection, request, self._keep),
            extensions={"http_version": b"HTTP/1.1"},
        )
