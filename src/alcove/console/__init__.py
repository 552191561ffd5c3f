"""The console in the browser, as far as servers know it: its static files, and which requests its own pages made.

The API server serves it under `/console/` (`apiserver/console`), `alcove console` on this machine
(`processes/console.py`). Its sources are in `console/` of the repository; `make console` builds them into `static`.
"""
